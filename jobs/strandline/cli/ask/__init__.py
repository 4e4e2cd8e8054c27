"""Verbs that answer and change nothing."""
