"""The paths of a table, its log, and commits of rows together with their ledger entry.

Only one table's files, versions and locks enter; the rooms above decide which rows are right.
Begin with lake, then ledger, then delta_commit.
"""
