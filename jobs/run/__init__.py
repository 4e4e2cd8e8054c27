"""HOW: the only code that reads or writes."""
