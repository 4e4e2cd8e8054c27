"""Verbs about a project of your own."""
