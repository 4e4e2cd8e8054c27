"""Verbs about rules, alerts and models."""
