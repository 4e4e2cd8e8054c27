"""WHETHER: what must hold of a row, and what happens to rows of which it does not."""
