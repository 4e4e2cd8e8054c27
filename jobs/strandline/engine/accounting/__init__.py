"""Do the books balance: is every event that was read in exactly one place?

Only figures enter, never rows: sums of ledger entries, and those of past commits, which say what is normal for a table.
Without Spark and without a broker. Begin with balance_sheet, then commit_history.
"""
