"""Moments and ranges of event time as people write them."""

from datetime import date, datetime

from strandline.core.errors import DefinitionError
from strandline.core.lateness import in_utc
from strandline.core.local_day import Day
from strandline.core.table import Table
from strandline.engine.repair.closed_range import Span


def typed(since: str, until: str, table: Table | None = None) -> Span:
    """Parse a range; of a table of local days a date is such a day, and the range is of whole ones.

    Raises:
        DefinitionError: An end is no moment, or the range is empty.
    """
    days = table.local_day if table else None
    ends = (("--since", since), ("--until", until))
    first, last = (_begin(text, days) or moment(text, name) for name, text in ends)
    if first >= last:
        raise DefinitionError(
            f"the range is empty: {since} is not before {until}",
            hint="--until is the moment after the last; for a day, that is the next day.",
        )
    span = Span(since=first, until=last)
    return span.whole(days) if days else span


def _begin(text: str, days: Day | None) -> datetime | None:
    """Return where a day begins; None where a text is no date, or days are those of UTC."""
    try:
        return days.begins(date.fromisoformat(text)) if days else None
    except ValueError:
        return None


def both(
    since: str | None, until: str | None, otherwise: str, table: Table | None = None
) -> Span | None:
    """Parse a range that may be absent.

    Raises:
        DefinitionError: Only one end was given, or see ``typed``.
    """
    if since and until:
        return typed(since, until, table)
    if since or until:
        raise DefinitionError(
            "a range has two ends, and one was given",
            hint=f"give --since and --until, or {otherwise}.",
        )
    return None


def moment(text: str, option: str) -> datetime:
    """Parse a moment; without a zone it is in UTC.

    Raises:
        DefinitionError: It is not one.
    """
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError as error:
        raise DefinitionError(
            f"{option} {text!r} is neither a date nor a moment",
            hint="write it like 2026-11-01 or 2026-11-01T06:00; it is read as UTC.",
        ) from error
