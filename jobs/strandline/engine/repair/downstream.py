"""The tables downstream of a range, computed again in the order in which data flows.

A table with windows is computed for the range extended by one window, and by as far as it joins rows, and so is a table above
it, from there on. A table without windows, or one of whose rows the plan does not say how far apart they lie, is computed whole
from today's rows and compared; its range is where the two differ. Rows that the stream has still to write are skipped. A row that
is there and still open, and that the change makes another one, is refused: the stream would go on from its old values. A table
that is recomputed afresh follows by itself, now or in its own process.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import shifted
from strandline.core.table import Derived, Ingested, Recomputed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.ask.explain_gold import reached
from strandline.engine.flow.batch.event_joins import Again
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.flow.recompute import Afresh
from strandline.engine.lake.commit.delta_commit import by_key, rows_now
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.commit.replace_rows import changes
from strandline.engine.lake.completeness import (
    computable_from,
    fed,
    known_reach,
    refuse_unbounded,
    retired,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.static_versions import refuse_untaken
from strandline.engine.repair.backfill import MODE, backfill, computed, reach_of
from strandline.engine.repair.closed_range import (
    Span,
    believed_by,
    closed_until,
    is_open,
    left_until,
    possible_from,
    refuse_open,
)


def above(table: Table, lake: Lake) -> list[Table]:
    """Return the existing tables downstream of a table that are fed, each after those that it reads."""
    return fed(reached(table, lake), lake)


def retired_above(table: Table, lake: Lake) -> list[Table]:
    """Return those that are not: all that read one of them are retired as well."""
    known = retired(lake)
    return [each for each in reached(table, lake) if each.id in known] if known else []


def left_behind(table: Table, lake: Lake) -> list[Table]:
    """Return the retired tables downstream that keep the old rows when those of a table change, and must be rebuilt to follow."""
    return [each for each in retired_above(table, lake) if not follows(each, table, lake)]


def refuse_open_above(table: Table, lake: Lake, span: Span) -> None:
    """Refuse, before anything is written, a range that a stream above still owns.

    Raises:
        DefinitionError: A stream above has not left it.
    """
    for other in led(table, lake):
        later = _later(other, table, lake) or timedelta(0)
        refuse_open(other, lake, span.wider(before=timedelta(0), after=later))


def refuse_unbounded_above(table: Table, lake: Lake) -> None:
    """Refuse, before anything is written, if a table downstream joins rows that may lie any time apart.

    Raises:
        DefinitionError: One does, so it could never follow.
    """
    for other in led(table, lake):
        refuse_unbounded(other, lake)


def refuse_behind_above(table: Table, lake: Lake) -> None:
    """Refuse, before anything is written, if a shut gate keeps a downstream table from following.

    Raises:
        GateShutError: A gate is shut.
    """
    for other in above(table, lake):
        refuse_behind(other, lake)
        refuse_untaken(other, lake)
        _refuse_unread_history(other, lake)


def _refuse_unread_history(table: Table, lake: Lake) -> None:
    """Refuse a table whose stream has not read rows that may be of closed time: a repair would bring them, and then the stream.

    Raises:
        TransientError: It has not.
    """
    sources = [each.id for each in believed_by(table)]
    if sources and waiting(table, lake):
        raise TransientError(
            f"{table.id} has not read all of {' and '.join(sources)}, which may have rows of any time",
            hint=f"`strandline run {table.id}`, then the same again.",
            table=table.id,
        )


def closed_above(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table and all downstream are closed; None when there is none."""
    closed = [repairable_until(each, table, lake) for each in (table, *led(table, lake))]
    return None if None in closed else min(each for each in closed if each)


def repairable_until(other: Table, table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which rows of a table may change, as far as another is concerned that is downstream of it."""
    closed, later = closed_until(other, lake), _later(other, table, lake)
    return None if closed is None or later is None else shifted(closed, -later)


def furthest_behind(table: Table, lake: Lake) -> Table:
    """Return the table, of a table and those downstream, whose closed time ends earliest."""
    return min(
        (table, *led(table, lake)), key=lambda each: repairable_until(each, table, lake) or EPOCH
    )


def possible_above(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return the event time that all of their streams must have read before a range's end is closed."""
    return max(
        possible_from(each, lake, shifted(until, _later(each, table, lake) or timedelta(0)))
        for each in (table, *led(table, lake))
    )


def _later(other: Table, table: Table, lake: Lake) -> timedelta | None:
    """Return how much later than a changed row of a table a row downstream may be that changes with it; None for any time."""
    if other == table:
        return timedelta(0)
    own = known_reach(other, lake)
    below = [_later(each, table, lake) for each in _between(other, table, lake)]
    known = [each for each in below if each is not None]
    if own is None or len(known) < len(below):
        return None
    return own + max(known, default=timedelta(0))


def _between(other: Table, table: Table, lake: Lake) -> list[Table]:
    """Return the tables, among those that one reads, that are or depend on another one."""
    changed = [table, *reached(table, lake)]
    return [each for each in other.upstream if each in changed]


def backfill_above(
    spark: SparkSession, table: Table, lake: Lake, span: Span, *, is_live: bool = True
) -> Iterator[tuple[Table, Entry | None]]:
    """Compute the tables downstream of a range again.

    Args:
        spark: The session.
        table: The table whose rows changed.
        lake: The lake.
        span: Where they changed.
        is_live: Whether streams go on from the rows that are still open.

    Yields:
        Each table with its ledger entry; with None when nothing changed in it, or its own process does the work.

    Raises:
        DefinitionError: Rows of a table that are still open would change; raised once the others have followed.
    """
    refused: list[StaleError] = []
    for other in above(table, lake):
        try:
            entry = backfill_one(spark, other, table, lake, span, is_live=is_live)
        except StaleError as error:
            refused.append(error)
        else:
            yield other, entry
    if refused:
        raise refused[0]


def backfill_one(  # noqa: PLR0913  # which table, above which, where and when
    spark: SparkSession, other: Table, table: Table, lake: Lake, span: Span, *, is_live: bool = True
) -> Entry | None:
    """Compute one table downstream of a range again; None when nothing changed in it, or its own process does the work."""
    if follows(other, table, lake):
        return follow(spark, other, lake)
    changed = _near(spark, other, table, lake, span)
    if changed is None:
        if is_live:
            _refuse_stale(spark, other, lake, span)
        changed = _differing(spark, other, lake)
    kept = _kept(other, lake, changed)
    return backfill(spark, other, lake, kept) if kept else None


def _near(spark: SparkSession, other: Table, table: Table, lake: Lake, span: Span) -> Span | None:
    """Return the range of a table in which its rows may change when those of a range below it did; None where no plan says."""
    if other == table:
        return span
    reach = reach_of(spark, other, lake) if isinstance(other, Derived) else None
    if reach is None:
        return None
    below = [_near(spark, each, table, lake, span) for each in _between(other, table, lake)]
    known = [each for each in below if each is not None]
    if not known or len(known) < len(below):
        return None
    whole = Span(since=min(each.since for each in known), until=max(each.until for each in known))
    return whole.wider(before=reach, after=reach - other.window_length)


def _kept(table: Table, lake: Lake, span: Span | None) -> Span | None:
    """Return the part of a range of which retention has deleted nothing; older rows stay as they are."""
    first = computable_from(table, lake)
    if span is None or first is None or first <= span.since:
        return span
    return Span(since=first, until=span.until) if first < span.until else None


def follows(other: Table, table: Table, lake: Lake) -> bool:
    """Return whether a table notices a change by itself: it is recomputed afresh, or only looks up dimensions there."""
    changed = [table, *reached(table, lake)]
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


class StaleError(DefinitionError):
    """The state of a stream has old values of rows that are still open."""


def _refuse_stale(spark: SparkSession, table: Table, lake: Lake, span: Span) -> None:
    """Refuse a change of rows that hold until something ends them, where nothing has ended them yet.

    They are compared as of the moment up to which the stream has written: what came later it has still to write, and from
    its own state.

    Raises:
        StaleError: The change makes others of them, or of an ended row one that holds.
    """
    left = left_until(table, lake)
    if left is None or not table.valid_until or not isinstance(table, Derived):
        return
    begins, ends = F.col(table.event_at), F.coalesce(F.col(table.valid_until), F.lit(left))
    until = F.least(ends, F.lit(left)).alias("_until")
    known_since = (begins < F.lit(left)) & (begins < F.lit(span.until))
    if (first := computable_from(table, lake)) is not None:  # what gave older rows is deleted
        known_since &= begins >= F.lit(first)
    known, live = (
        rows.where(known_since).select(*table.key, until)
        for rows in (
            computed(spark, table, lake, before=_read_until(table, left))[0],
            rows_now(spark, table, lake),
        )
    )
    other = known.exceptAll(live).unionAll(live.exceptAll(known))
    is_touched = (F.col("_until") == F.lit(left)) & (F.col("_until") >= F.lit(span.since))
    found = other.where(is_touched).select(*table.key).distinct().count()
    if found:
        raise StaleError(
            f"{found:,} rows of {table.id} that are still open would be others by what has changed below them, and its stream "
            "goes on from their old values",
            hint=f"let its stream begin with the new ones: `strandline rebuild {table.id}`, `strandline promote {table.id}`; "
            "then the same again, which finds them right.",
            table=table.id,
            rows=found,
        )


def _read_until(table: Derived, left: datetime) -> datetime:
    """Return the moment before which the rows lie that a stream had read when it had written up to another one.

    A table that emits what is final has read as far ahead of that as its sources may be late.
    """
    if not emits_over_time(table):
        return left
    return shifted(
        left, max(each.lateness.delay for each in table.upstream) + timedelta(milliseconds=1)
    )


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
