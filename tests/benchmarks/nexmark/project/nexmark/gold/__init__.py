"""The queries, each a table or a chain of tables."""
