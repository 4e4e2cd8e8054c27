"""The figures of past commits, and what is normal for a table.

Only figures enter, never rows. Begin with commit_history, then queries.
"""
