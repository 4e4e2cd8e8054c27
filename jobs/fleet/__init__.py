"""WHAT: pure functions from DataFrame to DataFrame, and the runner that gives them rows."""
