"""Compute the past again: backfill, replay, discard, rewind and rebuild.

A module belongs here if it changes closed ranges. Begin with closed_range, then backfill.
"""
