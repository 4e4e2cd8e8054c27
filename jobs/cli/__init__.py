"""The command line: verbs that people type, and the only place that reads the clock."""
