"""Events to play with: made from a seed, dirty on purpose, with the truth about each known."""
