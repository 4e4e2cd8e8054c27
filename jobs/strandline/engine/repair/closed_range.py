"""A range of event time, and whether a table's stream has left it for good: whether it is closed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.moment import shifted
from strandline.core.table import Recomputed, Table
from strandline.engine.pipeline.plan import emits_over_time
from strandline.engine.storage.known_reach import known_reach, refuse_unbounded
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import last_entry
from strandline.engine.storage.spark_checkpoint import settled_ms, stream_id
from strandline.engine.storage.window_index import EPOCH, MICROSECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of event time: its start belongs to it, its end does not."""

    since: datetime
    until: datetime

    @classmethod
    def of_micros(cls, first: int, last: int) -> "Span":
        """Return the shortest range that contains two moments, given in microseconds since 1970."""
        since, until = (shifted(EPOCH, at * MICROSECOND) for at in (first, last + 1))
        return cls(since=since, until=until)

    def in_micros(self) -> tuple[int, int]:
        """Return its first and its last microsecond, counted from 1970."""
        first, end = ((moment - EPOCH) // MICROSECOND for moment in (self.since, self.until))
        return first, end - 1

    def holds(self, moment: str | Column) -> Column:
        """Return the condition that a moment is in the range."""
        column = F.col(moment) if isinstance(moment, str) else moment
        return (column >= F.lit(self.since)) & (column < F.lit(self.until))

    def wider(self, *, before: timedelta, after: timedelta) -> "Span":
        """Return the range extended on both sides."""
        return Span(since=shifted(self.since, -before), until=shifted(self.until, after))


def left_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table's stream writes no more rows; None when there is none yet."""
    settled = settled_ms(lake.checkpoint(table), emits_over_time=emits_over_time(table))
    return datetime.fromtimestamp(settled / 1000, tz=UTC) if settled else None


def closed_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which every range of a table may be computed again; None when there is none yet.

    There never is where the table joins rows and nothing says how far these lie apart.
    """
    left, waits = left_until(table, lake), _until_it_closes(table, lake)
    return None if left is None or waits is None else shifted(left, -waits)


def possible_from(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return the event time that a table's stream must have read before a range that ends at a moment is closed."""
    delay = max(source.lateness.delay for source in (table, *table.upstream))
    return shifted(until, (_until_it_closes(table, lake) or timedelta(0)) + delay)


def _until_it_closes(table: Table, lake: Lake) -> timedelta | None:
    """Return how long after its time a row is final; None where nothing says it.

    Its window must be over, and the partners must be there that its rows may still meet.
    """
    reach = known_reach(table, lake)
    if reach is None:
        return None
    return reach + (table.window_length if table.closes_at else timedelta(0))


def is_open(table: Table, left: datetime) -> Column:
    """Return the condition that a row is still open: a stream may update it after it has closed all time up to ``left``."""
    if table.valid_until:  # a row without an end is open
        end = F.col(table.valid_until)
        return end.isNull() | (end > F.lit(left))
    if table.closes_at:  # a row without a closing time is final at once
        return F.coalesce(F.col(table.closes_at) > F.lit(left), F.lit(False))
    return F.lit(False)


def refuse_open(table: Table, lake: Lake, span: Span) -> None:
    """Refuse a range that a stream still owns, in whole or in part.

    Raises:
        DefinitionError: A stream owns it (the error names the earliest moment at which it will not), or no stream
            made the table.
    """
    if isinstance(table, Recomputed):
        raise DefinitionError(
            f"{table.id} recomputes by itself what a change of its sources touches; there is nothing to backfill",
            hint="`strandline run` brings it up to date; backfill the tables that it reads.",
            table=table.id,
        )
    refuse_streamless(table, lake)
    refuse_unbounded(table, lake)
    left, closed = left_until(table, lake), closed_until(table, lake)
    if closed is not None and span.until <= closed:
        return
    possible = possible_from(table, lake, span.until).isoformat()
    past = f"everything before {left.isoformat()}" if left else "nothing yet"
    raise DefinitionError(
        f"{table.id} until {span.until.isoformat()} still belongs to its stream, which has left {past}: "
        "the stream may still admit rows of it",
        hint=f"the earliest possible moment is when events of {possible} were read; "
        "until then choose an earlier --until.",
        table=table.id,
        until=span.until.isoformat(),
        closed_until=left.isoformat() if left else None,
        possible_from=possible,
    )


def refuse_streamless(table: Table, lake: Lake) -> None:
    """Refuse a table that no stream made.

    Raises:
        DefinitionError: It was never run, or a batch replaces it as a whole.
    """
    newest = last_entry(lake.table(table))
    if newest is None or newest[1].stream != stream_id(lake.checkpoint(table)):
        raise DefinitionError(
            f"{table.id} was not made by a stream, so none of its ranges is closed",
            hint=f"if it was never run, `strandline run {table.id}` fills it; "
            "a batch run replaces a table as a whole.",
            table=table.id,
        )
