"""Which days of events a table's stream has left for good, so that nobody need wait for them."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from jobs.core.table import Layer, Speaks, Table
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from jobs.run.measures import moment_of
from jobs.run.span import closed_until

DAY = timedelta(days=1)


def closed_days(table: Table, lake: Lake, first: date) -> Iterator[date]:
    """Yield the closed days of a table, oldest first, none before a day and none before its first row."""
    until = _closed(table, lake)
    begins = _begins(table, lake)
    if until is None or begins is None:
        return
    day = max(first, begins.date())
    while datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY <= until:
        yield day
        day += DAY


def _closed(table: Table, lake: Lake) -> datetime | None:
    """Return until when; what a table without a stream computes again is closed where all that it reads is."""
    if table.layer is Layer.BRONZE:
        return None
    if table.speaks is not Speaks.AFRESH:
        return closed_until(table, lake)
    below = [_closed(source, lake) for source in table.upstream]
    known = [each for each in below if each is not None]
    return min(known) if known and len(known) == len(below) else None


def _begins(table: Table, lake: Lake) -> datetime | None:
    """Return the first moment of which a table speaks, as the statistics of its files say."""
    path = lake.table(table)
    if not is_table(path):
        return None
    actions: Any = DeltaTable(path).get_add_actions(flatten=True)
    name = f"min.{moment_of(table)}"
    if name not in actions.column_names:
        return None
    known = [value for each in actions[name] if (value := each.as_py()) is not None]
    return min(known) if known else None
