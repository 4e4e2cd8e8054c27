"""Prove that the rows of a table are those that its log implies.

Recomputation, kill trials, comparison and certificates belong here, and the evidence of a day for people, which computes no
rows. Begin with verify, then daily_report.
"""
