"""The command line: verbs that people type. It parses their words and renders the answers; the work is done in operate."""
