"""Topics as received."""
