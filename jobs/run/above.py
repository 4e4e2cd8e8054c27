"""What rests on a range of a table: the tables above it, computed again in the order in which data flows.

A table with windows has a range of its own, wider by one window. One without is compared whole with what today's
rows give, and the range is what differs; what is still open there keeps the word of its stream, which will speak
of it again. A table that is computed afresh follows by itself, now or in its own process.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import catalog
from jobs.core.errors import TransientError
from jobs.core.table import Speaks, Table
from jobs.run.afresh import Afresh
from jobs.run.backfill import MODE, backfill, computed
from jobs.run.gates import refuse_behind
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry
from jobs.run.lookup import Again
from jobs.run.rows import rows_now
from jobs.run.same_key import by_key
from jobs.run.shelf import EPOCH
from jobs.run.span import (
    Span,
    closed_until,
    is_open,
    left_until,
    length,
    possible_from,
    refuse_open,
)
from jobs.run.swap import changes


def above(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that rest on a table and exist, each after those it reads."""
    found = [table]
    for other in catalog.tables():
        if lake.exists(other) and any(source in found for source in other.needs):
            found.append(other)
    return found[1:]


def refuse_open_above(table: Table, lake: Lake, span: Span) -> None:
    """See, before anything is written, that the streams above have left the range as well.

    Raises:
        DefinitionError: One has not.
    """
    for other in led(table, lake):
        refuse_open(other, lake, span)


def refuse_behind_above(table: Table, lake: Lake) -> None:
    """See, before anything is written, that no shut gate keeps what rests on a table from following.

    Raises:
        GateShutError: One does.
    """
    for other in above(table, lake):
        refuse_behind(other, lake)


def closed_above(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table and all that rest on it may be computed again; None when there is none."""
    closed = [closed_until(each, lake) for each in (table, *led(table, lake))]
    return None if None in closed else min(each for each in closed if each)


def furthest_behind(table: Table, lake: Lake) -> Table:
    """Return the one of a table and those that rest on it whose stream has left the least."""
    return min((table, *led(table, lake)), key=lambda each: closed_until(each, lake) or EPOCH)


def possible_above(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return up to which moment events must have been read before all of their streams have left a range's end."""
    return max(possible_from(each, until) for each in (table, *led(table, lake)))


def backfill_above(
    spark: SparkSession, table: Table, lake: Lake, span: Span
) -> Iterator[tuple[Table, Entry | None]]:
    """Compute again what rests on a range; None for a table in which nothing changed, or that follows by itself."""
    for other in above(table, lake):
        if follows(other, table, lake):
            yield other, _follow(spark, other, lake)
        elif other.window:
            wider = span.wider(before=length(other), after=timedelta(0))
            yield other, backfill(spark, other, lake, wider)
        else:
            differing = _differing(spark, other, lake)
            yield other, backfill(spark, other, lake, differing) if differing else None


def follows(other: Table, table: Table, lake: Lake) -> bool:
    """Tell whether a table sees by itself what has changed: it is computed afresh, or only looks things up there."""
    changed = [table, *above(table, lake)]
    return other.speaks is Speaks.AFRESH or not any(source in changed for source in other.upstream)


def led(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that rest on a table and have to be told when it changes."""
    return [other for other in above(table, lake) if not follows(other, table, lake)]


def _follow(spark: SparkSession, table: Table, lake: Lake) -> Entry | None:
    refuse_behind(table, lake)
    try:
        with lease(spark, table, lake):
            if table.speaks is Speaks.AFRESH:
                return Afresh(spark, table, lake, MODE).catch_up()
            return Again(spark, table, lake).look()
    except TransientError:  # its own process has it, and does the same
        return None


def _differing(spark: SparkSession, table: Table, lake: Lake) -> Span | None:
    """Return the range in which a table is not what today's rows give, of what its stream has left for good."""
    left = left_until(table, lake)
    if left is None:
        return None
    (rows, _), live = computed(spark, table, lake), rows_now(spark, table, lake)
    different = changes(rows, live)
    key = list(table.key)
    owned = [each.where(is_open(table, left)).select(*key) for each in (rows, live)]
    different = by_key(different, owned[0].union(owned[1]).distinct(), key, "left_anti")
    moment = F.col(str(table.event_at))
    closed = different.where(moment < F.lit(left))
    first, last = closed.agg(*(F.unix_micros(f(moment)) for f in (F.min, F.max))).collect()[0]
    return None if first is None else Span.of_micros(first, last)
