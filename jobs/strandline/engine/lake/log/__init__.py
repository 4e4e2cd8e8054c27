"""The log of a table without a JVM: its commits, the entry of the ledger in each, the sums of all, and which files no version names any more.

Begin with commit_log, then ledger.
"""
