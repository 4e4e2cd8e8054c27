"""WHETHER: the rules that rows must satisfy, and what happens to rows that break them."""
