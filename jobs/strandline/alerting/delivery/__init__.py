"""Alerts brought to people: each receiver has a courier with books of its own. Begin with courier."""
