"""Verbs that compute the past again, or prove that they need not."""
