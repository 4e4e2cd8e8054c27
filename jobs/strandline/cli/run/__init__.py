"""Verbs that bring events into tables."""
