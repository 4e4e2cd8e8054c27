"""A moment, from a text or a value that may name no zone, and within the years that Python has."""

from datetime import UTC, datetime, timedelta

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def in_utc(moment: datetime) -> datetime:
    """Return a moment with its zone; without one it is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


RECENT = timedelta(days=8)
"""An alert on an event that is older is from history: it is recorded, and no person is woken for it."""


def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return a moment that lies a span away, and the calendar's end where that lies beyond it.

    A record of a broken clock is in bronze at the last millisecond of the year 9999 (jobs/strandline/engine/pipeline/ingest.py),
    and whatever adds a span to its time would fail.
    """
    try:
        return moment + by
    except OverflowError:
        return FIRST if by < timedelta(0) else LAST
