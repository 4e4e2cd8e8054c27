"""Prove that the rows of a table are those that its log implies.

Recomputation, kill trials, comparison and certificates belong here. Begin with verify.
"""
