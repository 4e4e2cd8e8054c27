"""Questions about a lake that change nothing: its books, a report, a certificate, an audit, what a program wrote.

Begin with ledger.
"""
