"""Moments and ranges of event time as people write them."""

from datetime import datetime

from strandline.core.errors import DefinitionError
from strandline.core.lateness import in_utc
from strandline.engine.repair.closed_range import Span


def typed(since: str, until: str) -> Span:
    """Parse a range.

    Raises:
        DefinitionError: An end is no moment, or the range is empty.
    """
    first, last = (moment(text, name) for name, text in (("--since", since), ("--until", until)))
    if first >= last:
        raise DefinitionError(
            f"the range is empty: {since} is not before {until}",
            hint="--until is the moment after the last; for a day, that is the next day.",
        )
    return Span(since=first, until=last)


def both(since: str | None, until: str | None, otherwise: str) -> Span | None:
    """Parse a range that may be absent.

    Raises:
        DefinitionError: Only one end was given, or see ``typed``.
    """
    if since and until:
        return typed(since, until)
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
