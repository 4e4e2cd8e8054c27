"""Events that are complete and in time."""
