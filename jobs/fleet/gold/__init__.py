"""Answers: windows, joins and sessions over silver; one module a table."""
