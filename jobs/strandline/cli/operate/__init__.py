"""Verbs for who keeps a lake: pages, servers, maintenance, copies."""
