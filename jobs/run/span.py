"""A closed range of event time, and whether a table's stream has left it for good."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.core.table import Speaks, Table
from jobs.run.checkpoint import settled_ms, stream_id
from jobs.run.lake import Lake
from jobs.run.ledger import last_entry
from jobs.run.shelf import EPOCH, MICROSECOND
from jobs.run.streams import speaks_of_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From one moment to another; the second is no longer in it."""

    since: datetime
    until: datetime

    @classmethod
    def of_micros(cls, first: int, last: int) -> "Span":
        """Return the shortest range with two moments, given in microseconds since 1970."""
        since, until = (EPOCH + at * MICROSECOND for at in (first, last + 1))
        return cls(since=since, until=until)

    def in_micros(self) -> tuple[int, int]:
        """Return its first and its last microsecond since 1970."""
        first, behind = ((moment - EPOCH) // MICROSECOND for moment in (self.since, self.until))
        return first, behind - 1

    def holds(self, moment: str | Column) -> Column:
        """Tell whether a moment lies in it."""
        column = F.col(moment) if isinstance(moment, str) else moment
        return (column >= F.lit(self.since)) & (column < F.lit(self.until))

    def wider(self, *, before: timedelta, after: timedelta) -> "Span":
        """Return it with so much more on both sides."""
        return Span(since=self.since - before, until=self.until + after)


def length(table: Table) -> timedelta:
    """Return how long a table's windows are; nothing for one that has none."""
    return pd.Timedelta(table.window).to_pytimedelta() if table.window else timedelta(0)


def left_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table's stream writes nothing any more; None when there is none yet."""
    settled = settled_ms(lake.checkpoint(table), speaks_of_time=speaks_of_time(table))
    return datetime.fromtimestamp(settled / 1000, tz=UTC) if settled else None


def closed_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which every range of a table may be computed again; None when there is none yet."""
    left = left_until(table, lake)
    return left - _until_it_closes(table) if left else None


def possible_from(table: Table, until: datetime) -> datetime:
    """Return up to which moment events must have been read before a table's stream has left a range's end."""
    delay = max(source.lateness.delay for source in (table, *table.upstream))
    return until + _until_it_closes(table) + delay


def _until_it_closes(table: Table) -> timedelta:
    return length(table) if table.closes_at else timedelta(0)


def is_open(table: Table, left: datetime) -> Column:
    """Tell whether a table's stream, which has left everything before a moment, will speak of a row again."""
    if table.valid_until:  # a row without an end is open
        end = F.col(table.valid_until)
        return end.isNull() | (end > F.lit(left))
    if table.closes_at:  # one without a closing is final at once
        return F.coalesce(F.col(table.closes_at) > F.lit(left), F.lit(False))
    return F.lit(False)


def refuse_open(table: Table, lake: Lake, span: Span) -> None:
    """See that no stream owns any of a range.

    Raises:
        DefinitionError: It does, with the earliest moment at which it will not; or no stream made the table.
    """
    if table.speaks is Speaks.AFRESH:
        raise DefinitionError(
            f"{table.id} computes by itself what a change of its sources touches; there is nothing to backfill",
            hint="`strandline run` brings it up to date; backfill what it reads.",
            table=table.id,
        )
    refuse_streamless(table, lake)
    left, closed = left_until(table, lake), closed_until(table, lake)
    if closed is not None and span.until <= closed:
        return
    possible = possible_from(table, span.until).isoformat()
    stands = f"everything before {left.isoformat()}" if left else "nothing yet"
    raise DefinitionError(
        f"{table.id} until {span.until.isoformat()} still belongs to its stream, which has left {stands}: "
        "a row that is on its way may still be admitted",
        hint=f"the earliest possible moment is when events of {possible} were read; "
        "until then choose an earlier --until.",
        table=table.id,
        until=span.until.isoformat(),
        closed_until=left.isoformat() if left else None,
        possible_from=possible,
    )


def refuse_streamless(table: Table, lake: Lake) -> None:
    """See that a table is one that a stream made and goes on with.

    Raises:
        DefinitionError: It was never run, or a batch replaces it as a whole.
    """
    newest = last_entry(lake.table(table))
    if newest is None or newest[1].stream != stream_id(lake.checkpoint(table)):
        raise DefinitionError(
            f"{table.id} was not made by a stream, so none of its ranges is closed",
            hint=f"`strandline run {table.id}` fills it, if it was never run; a batch run replaces it as a whole.",
            table=table.id,
        )
