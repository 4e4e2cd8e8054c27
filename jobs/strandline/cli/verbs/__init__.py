"""The verbs: a module for those that are about one thing; the groups of the help are in groups.py."""
