"""Which columns come from which, and what a run says about it to others.

Begin with column_lineage.
"""
