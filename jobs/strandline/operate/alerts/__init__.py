"""Use cases of alerts: rules are read, tried, promoted and run, and what they raise is delivered.

No other use case imports them: a project of other tables has none. Begin with rules, then live_rules.
"""
