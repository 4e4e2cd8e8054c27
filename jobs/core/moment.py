"""A moment, from a text or a value that may name no zone."""

from datetime import UTC, datetime


def in_utc(moment: datetime) -> datetime:
    """Return a moment with its zone; without one it is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
