"""The one door to files: where a table is, its log, its rows, its locks, and commits together with their ledger entry.

No other room opens a file or a table; the rooms above ask by table, and decide which rows are right.
Begin with lake, then place, log.ledger, commit.delta_commit; open_table is how rows are found without a JVM.
"""
