"""Use cases of alerts: examples are read, tried, promoted and run, and what they raise is delivered.

No other use case imports them: a project of other tables has none. Begin with examples, then raising.
"""
