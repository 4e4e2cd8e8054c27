"""Rows as a reader sees them: a table of text in the test, and every value of a lake as that text.

Times are written as the time of day of one fixed day, because a test is about minutes, not about years.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TypeAlias

Row: TypeAlias = dict[str, str]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""The day and hour of every test; its clock does not advance."""

NULL = "-"
"""How an absent value is written."""


def rows(table: str) -> list[Row]:
    """Return a table's rows in the order of their text, as ``shown`` does."""
    return ordered(lines(table))


def lines(table: str) -> list[Row]:
    """Read a table of ``|`` and lines, the names first; its rows stay in their order."""
    cells = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    names, *values = cells
    return [dict(zip(names, row, strict=True)) for row in values]


def shown(values: Iterable[Mapping[str, object]], *names: str) -> list[Row]:
    """Write rows of a lake as ``rows`` reads them, with all columns or those that are named."""
    return ordered({name: text(row[name]) for name in names or row} for row in values)


def ordered(found: Iterable[Row]) -> list[Row]:
    """Sort rows by their text, so that lists compare as bags."""
    return sorted(found, key=lambda row: tuple(row.items()))


def at(clock: str) -> datetime:
    """Return a time of the fixed day, or a moment that is written in full."""
    if "-" in clock:
        return datetime.fromisoformat(clock)
    return datetime.combine(NOON, time.fromisoformat(clock), tzinfo=UTC)


def micros(moment: datetime) -> int:
    """Return a moment of a whole second in microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000


def text(value: object) -> str:
    """Write one value."""
    match value:
        case None:
            return NULL
        case datetime():
            is_of_the_day = value.date() == NOON.date()
            return value.time().isoformat() if is_of_the_day else value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode(errors="backslashreplace")
        case list():
            return " ".join(text(each) for each in value)
        case _:
            return str(value)
