"""Where is each event that was read: do the books balance, which rows are held back, may this batch be published?

Sums of ledger entries, past commits, which say what is normal; the two tables of a quarantine, and the checks and files
that close a gate. Judging held rows again is in repair. Begin with balance_sheet, then held_records, batch_check.
"""
