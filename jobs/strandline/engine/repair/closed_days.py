"""The closed days of a table: no stream will write events of them any more."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.history.commit_metrics import moment_of
from strandline.engine.repair.closed_range import closed_until
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.open_table import earliest

DAY = timedelta(days=1)


def closed_days(
    table: Table, lake: Lake, first: date, *, before_rows: bool = False
) -> Iterator[date]:
    """Yield the closed days of a table, oldest first, from a day on.

    Args:
        table: The table.
        lake: Its lake.
        first: The day.
        before_rows: Whether also those before its first row, on which there was nothing to do.
    """
    until = _closed(table, lake)
    begins = _begins(table, lake)
    if until is None or begins is None:
        return
    day = first if before_rows else max(first, begins.date())
    while datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY <= until:
        yield day
        day += DAY


def _closed(table: Table, lake: Lake) -> datetime | None:
    """Return the end of the closed time; a table without a stream is closed where all of its sources are."""
    if isinstance(table, Ingested):
        return None
    if not isinstance(table, Recomputed):
        return closed_until(table, lake)
    below = [_closed(source, lake) for source in table.upstream]
    known = [each for each in below if each is not None]
    return min(known) if known and len(known) == len(below) else None


def _begins(table: Table, lake: Lake) -> datetime | None:
    """Return the earliest event time in a table, from the statistics of its files."""
    return earliest(lake.table(table), moment_of(table))
