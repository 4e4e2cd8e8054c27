"""The vocabulary that every table is written in; it imports nothing above it but ``strandline_quality``."""
