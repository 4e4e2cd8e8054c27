"""What a person reads to know whether the numbers may be believed: one page, made of one structure."""
