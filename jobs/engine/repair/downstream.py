"""The tables downstream of a range, computed again in the order in which data flows.

A table with windows is computed for the range extended by one window, and by as far as it declares to reach. A table
without windows, or one that joins rows of other windows and does not declare how far apart, is computed whole from today's
rows and compared; its range is where the two differ. Open rows are skipped; the stream will update them. A table that is
recomputed afresh follows by itself, now or in its own process.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import catalog
from jobs.core.errors import TransientError
from jobs.core.moment import shifted
from jobs.core.table import Derived, Ingested, Recomputed, Table
from jobs.engine.gates.gate_files import refuse_behind
from jobs.engine.pipeline.dimension_lookup import Again
from jobs.engine.pipeline.recompute_windows import Afresh
from jobs.engine.repair.backfill import MODE, backfill, computed
from jobs.engine.repair.closed_range import (
    Span,
    closed_until,
    is_open,
    left_until,
    possible_from,
    refuse_open,
)
from jobs.engine.repair.reach import reach_of
from jobs.engine.storage.horizon import computable_from
from jobs.engine.storage.join_by_key import by_key
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.locks import lease
from jobs.engine.storage.read_version import rows_now
from jobs.engine.storage.replace_rows import changes
from jobs.engine.storage.window_index import EPOCH


def above(table: Table, lake: Lake) -> list[Table]:
    """Return the existing tables downstream of a table, each after those that it reads."""
    reached = [table]
    for other in catalog.tables():
        if lake.exists(other) and any(source in reached for source in other.needs):
            reached.append(other)
    return reached[1:]


def refuse_open_above(table: Table, lake: Lake, span: Span) -> None:
    """Refuse, before anything is written, a range that a stream above still owns.

    Raises:
        DefinitionError: A stream above has not left it.
    """
    for other in led(table, lake):
        refuse_open(other, lake, span.wider(before=timedelta(0), after=other.reaches))


def refuse_behind_above(table: Table, lake: Lake) -> None:
    """Refuse, before anything is written, if a shut gate keeps a downstream table from following.

    Raises:
        GateShutError: A gate is shut.
    """
    for other in above(table, lake):
        refuse_behind(other, lake)


def closed_above(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table and all downstream are closed; None when there is none."""
    closed = [repairable_until(each, lake) for each in (table, *led(table, lake))]
    return None if None in closed else min(each for each in closed if each)


def repairable_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which rows below a table may change: those that it reaches from there are closed as well."""
    closed = closed_until(table, lake)
    return shifted(closed, -table.reaches) if closed else None


def furthest_behind(table: Table, lake: Lake) -> Table:
    """Return the table, of a table and those downstream, whose closed time ends earliest."""
    return min((table, *led(table, lake)), key=lambda each: repairable_until(each, lake) or EPOCH)


def possible_above(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return the event time that all of their streams must have read before a range's end is closed."""
    return max(
        possible_from(each, shifted(until, each.reaches)) for each in (table, *led(table, lake))
    )


def backfill_above(
    spark: SparkSession, table: Table, lake: Lake, span: Span
) -> Iterator[tuple[Table, Entry | None]]:
    """Compute the tables downstream of a range again.

    Yields:
        Each table with its ledger entry; with None when nothing changed in it, or its own process does the work.
    """
    for other in above(table, lake):
        yield other, backfill_one(spark, other, table, lake, span)


def backfill_one(
    spark: SparkSession, other: Table, table: Table, lake: Lake, span: Span
) -> Entry | None:
    """Compute one table downstream of a range again; None when nothing changed in it, or its own process does the work."""
    if follows(other, table, lake):
        return follow(spark, other, lake)
    kept = _kept(other, lake, _changed(spark, other, lake, span))
    return backfill(spark, other, lake, kept) if kept else None


def _changed(spark: SparkSession, table: Table, lake: Lake, span: Span) -> Span | None:
    """Return the range of a table in which its rows may change when those of a range below it did."""
    nearby = table.window_length + table.reaches
    if isinstance(table, Derived) and nearby and reach_of(spark, table, lake) == nearby:
        return span.wider(before=nearby, after=table.reaches)
    return _differing(spark, table, lake)


def _kept(table: Table, lake: Lake, span: Span | None) -> Span | None:
    """Return the part of a range of which retention has deleted nothing; older rows stay as they are."""
    first = computable_from(table, lake)
    if span is None or first is None or first <= span.since:
        return span
    return Span(since=first, until=span.until) if first < span.until else None


def follows(other: Table, table: Table, lake: Lake) -> bool:
    """Return whether a table notices a change by itself: it is recomputed afresh, or only looks up dimensions there."""
    changed = [table, *above(table, lake)]
    return isinstance(other, Recomputed) or not any(source in changed for source in other.upstream)


def led(table: Table, lake: Lake) -> list[Table]:
    """Return the downstream tables that do not follow by themselves, so that they must be backfilled."""
    return [other for other in above(table, lake) if not follows(other, table, lake)]


def follow(spark: SparkSession, table: Table, lake: Lake) -> Entry | None:
    """Let a table that notices changes by itself follow them; None when nothing changed, or its own process does it."""
    refuse_behind(table, lake)
    try:
        with lease(spark, table, lake):
            if isinstance(table, Recomputed):
                return Afresh(spark, table, lake, MODE).catch_up()
            return None if isinstance(table, Ingested) else Again(spark, table, lake).look()
    except TransientError:  # its own process has it, and does the same
        return None


def _differing(spark: SparkSession, table: Table, lake: Lake) -> Span | None:
    """Return the closed range in which a table differs from what today's rows give."""
    left = left_until(table, lake)
    if left is None or not isinstance(table, Derived):
        return None
    (rows, _), live = computed(spark, table, lake), rows_now(spark, table, lake)
    different = changes(rows, live)
    key = list(table.key)
    owned = [each.where(is_open(table, left)).select(*key) for each in (rows, live)]
    different = by_key(different, owned[0].union(owned[1]).distinct(), key, "left_anti")
    moment = F.col(table.event_at)
    closed = different.where(moment < F.lit(left))
    first, last = closed.agg(*(F.unix_micros(f(moment)) for f in (F.min, F.max))).collect()[0]
    return None if first is None else Span.of_micros(first, last)
