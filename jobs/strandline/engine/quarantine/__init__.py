"""Rows that were held back, and the decisions about them.

Reading and appending the two tables of a quarantine enters; judging rows again is in repair.
Begin with held_records.
"""
