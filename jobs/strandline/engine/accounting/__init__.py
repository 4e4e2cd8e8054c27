"""Do the books balance: is every event that was read in exactly one place?

Only sums of ledger entries enter, without Spark and without a broker. Begin with balance_sheet.
"""
