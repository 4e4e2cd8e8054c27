"""Use cases of repair: the past computed again, in place or beside, rows decided about, lost, forgotten or brought in.

Begin with backfill.
"""
