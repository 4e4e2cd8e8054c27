"""Backfill: compute a closed range of a table again by the same pure functions, and replace its rows.

The table's stream runs meanwhile: it has left the range for good (jobs/strandline/engine/repair/closed_range.py), and the two
take turns to commit (jobs/strandline/engine/lake/locks.py). Streams above skip the commit, so nothing is read twice; tables
above are computed again on request.

A table with windows is computed from the rows that can fall into them or be joined with those.
Where it is not known how far these lie away, and for a table without windows (a hold, a join), which may depend on any
earlier row, it is computed whole, and only its rows in the range are replaced.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.routes import schemas_from
from strandline.core.stateful import first_copies
from strandline.core.table import (
    Appended,
    Derived,
    Ingested,
    Judged,
    Recomputed,
    Table,
    Upserted,
    Windowed,
)
from strandline.core.topic import ITEM, ORDER, PLACE, SKIPPED
from strandline.core.verdict import (
    DUPLICATE_OF,
    bad_rows,
    good_rows,
    judged,
    time_of_a_bad_row,
    with_newest_arrival,
    without_skipped,
)
from strandline.engine.accounting.batch_check import Guard, counted
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.accounting.held_records import (
    REPLAY,
    UNSIGNED,
    Signed,
    Status,
    append_entry,
    half_imported,
    hold,
    records,
    resolve,
    unfinished,
)
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.batch_accounting import skip_of, skipped_among
from strandline.engine.flow.batch.event_joins import adorned, joining, noted
from strandline.engine.flow.batch.joined_streams import joined
from strandline.engine.flow.plan import framed
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.commit.delta_commit import rows_at, rows_now
from strandline.engine.lake.commit.replace_rows import Exchange, came_and_gone, changes, swap
from strandline.engine.lake.completeness import let_go, refuse_expired, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import IMPORT, NOTHING, Entry, Through, is_table
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.shelves import Shelf
from strandline.engine.lake.static_versions import refuse_untaken
from strandline.engine.repair.closed_range import (
    Span,
    all_read,
    believed_by,
    is_open,
    left_until,
    read_together,
    refuse_open,
    refuse_rerouted,
)
from strandline.engine.repair.plan_replay import apart, moved
from strandline.engine.runtime.jvm import Meter

# Judge a range of bronze again: which rows come to silver, which go, and what its quarantine then holds.
#
# Silver's range is one of event time, but a held row has no event time that could be believed, and a changed rule
# moves events between the two. So the unit is the event: an event that the new judgement puts into the range, or that
# the old one had put there, is settled as a whole, and every other event keeps its place. The law of lateness bounds
# the arrivals that can be concerned, so the cost is that of the range and not of bronze.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """The new content of a range.

    Args:
        version: The version of silver that was compared.
        live: Its rows in the range.
        rows: The rows that replace them.
        released: Records that leave the quarantine; some are replaced by records with other reasons.
        held: Records that come to the quarantine.
        lost: The number of released records by first reason.
        gained: The number of new records by first reason.
        skipped: The number of records that are passed over from now on, by the name of the rule.
        passed: All that are passed over, with the name.
        verdicts: The verdict on each event of the range.
        through: How many rows of the range go because the table's function has no row for their record any more, and how
            many more of a record's rows it has than before.
        lost_items: Of the released records, those that are items of believed ones.
        gained_items: Of those that come, likewise.
    """

    version: int
    live: DataFrame
    rows: DataFrame
    released: DataFrame
    held: DataFrame
    lost: Counter[str]
    gained: Counter[str]
    skipped: Counter[str]
    passed: DataFrame
    verdicts: DataFrame
    through: Through
    lost_items: int = 0
    gained_items: int = 0

    @property
    def held_items(self) -> int:
        """Return by how many the held items become more or less."""
        return self.gained_items - self.lost_items


@contextmanager
def rejudged(spark: SparkSession, table: Judged, lake: Lake, span: Span) -> Iterator[Rejudged]:
    """Judge again all events that can belong to a range.

    Raises:
        DefinitionError: By today's code a row would move out of the range, or into it.
    """
    version, read = read_together(table, table.upstream, lake)
    events = _events(spark, table, lake, span, read)
    with schemas_from(Shelf(lake.schemas)), joining(table, lake):
        everything = judged(events, table, in_any_order=True, keeps_skipped=True)
    everything = everything.persist(StorageLevel.MEMORY_AND_DISK)
    verdicts = firsts = without_skipped(everything, table)
    if not table.keeps_copies:
        firsts = first_copies(verdicts, DUPLICATE_OF, ORDER).persist(StorageLevel.MEMORY_AND_DISK)
    live = rows_at(spark, lake.table(table), version)
    inside = span.holds(table.event_at)
    known = records(spark, table, lake)
    known, known_items = apart(known)
    moves = _moves(
        everything,
        live.select(*PLACE, inside.alias("was_in")),
        known.select(*PLACE, F.col("reasons").alias("were")),
        table,
        span,
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        gained, lost, skipped = _counted(moves, table)
        rows = good_rows(firsts, table).where(inside)
        coming, leaving = (moves.where(each).select(*PLACE) for each in ("comes", "leaves"))
        released = known.join(leaving, [*PLACE], "left_semi")
        held = bad_rows(firsts, table).join(coming, [*PLACE], "left_semi")
        of_items = moved(firsts.where(inside), known_items, live.where(inside), table)
        if of_items is not None:
            released = released.unionByName(of_items.released, allowMissingColumns=True)
            held = held.unionByName(of_items.held, allowMissingColumns=True)
            gained, lost = gained + of_items.gained, lost + of_items.lost
        yield Rejudged(
            version=version,
            live=live.where(inside),
            rows=rows,
            released=released,
            held=held,
            lost=lost,
            gained=gained,
            skipped=skipped,
            passed=_passed(everything, table),
            verdicts=firsts.where(span.holds("_time")),
            through=_through(events, everything, live.where(inside), rows, table),
            lost_items=of_items.lost.total() if of_items else 0,
            gained_items=of_items.gained.total() if of_items else 0,
        )
    finally:
        for each in (moves, firsts, everything):
            each.unpersist()


def _passed(everything: DataFrame, table: Judged) -> DataFrame:
    passed = everything.select(*PLACE, skip_of(table).alias(SKIPPED))
    return passed.where(F.col(SKIPPED).isNotNull())


def _through(
    events: DataFrame, verdicts: DataFrame, live: DataFrame, rows: DataFrame, table: Judged
) -> Through:
    """Count what the function does otherwise than when the live rows were made."""
    known = live.join(events.select(*PLACE), [*PLACE], "left_semi")
    gone = known.join(verdicts.select(*PLACE), [*PLACE], "left_anti")
    lost = places_in(gone) if table.rows else gone.count()
    return Through(
        lost=lost, made=_more_than_records(rows, table) - _more_than_records(live, table)
    )


def places_in(rows: DataFrame) -> int:
    """Return of how many records there are rows."""
    return rows.select(*PLACE).distinct().count()


def _more_than_records(rows: DataFrame, table: Judged) -> int:
    """Return how many rows there are beyond one for each record, and for each item of its list."""
    of_record = rows.groupBy(*PLACE, *([ITEM] if table.rows else [])).count()
    found = of_record.agg(F.sum(F.col("count") - 1)).collect()[0][0]
    return int(found or 0)


def _events(
    spark: SparkSession, table: Judged, lake: Lake, span: Span, read: Mapping[str, int]
) -> DataFrame:
    """Return the events of bronze that can be admitted into the range, as far as the stream has read."""
    (source,) = table.upstream
    bronze = with_newest_arrival(rows_at(spark, lake.table(source), read[source.id]))
    after = timedelta.max if table.believes_history else table.lateness.late
    near = span.wider(before=table.lateness.early, after=after)
    return bronze.where(near.holds("_arrived_at") | span.holds(time_of_a_bad_row()))


def _moves(
    verdicts: DataFrame, live: DataFrame, held: DataFrame, table: Judged, span: Span
) -> DataFrame:
    """Return for each event near the range where it was and where it goes."""
    skip = skip_of(table)
    events = verdicts.select(
        *PLACE,
        "_reasons",
        skip.alias("skip"),
        (F.col("_reasons").isNull() & skip.isNull()).alias("good"),
        span.holds("_time").alias("in_range"),
        F.coalesce(span.holds(table.event_at), F.lit(False)).alias("claims_range"),
    )
    if table.rows:  # of a record, not of each of its rows
        live = live.dropDuplicates([*PLACE])
    known = events.join(live, [*PLACE], "left_outer").join(held, [*PLACE], "left_outer")
    was_in = F.coalesce("was_in", F.lit(False))
    was_out = ~F.coalesce("was_in", F.lit(True))
    was_copy = F.col("was_in").isNull() & F.col("were").isNull()
    good, in_range = F.col("good"), F.col("in_range")
    is_new = ~F.col("were").eqNullSafe(F.col("_reasons"))
    belongs = was_in | (in_range & ~was_out) | (F.col("claims_range") & was_copy)
    is_passed = F.col("skip").isNotNull()
    comes = ~good & ~is_passed & is_new & belongs
    # One that was neither a row nor held was passed over before, as far as the lake knows.
    passed = is_passed & (was_in | (F.col("were").isNotNull() & belongs))
    return known.select(
        *PLACE,
        comes.alias("comes"),
        (F.col("were").isNotNull() & ((good & in_range) | comes | passed)).alias("leaves"),
        F.when(passed, F.col("skip")).alias("skip"),
        (was_in & good & ~in_range).alias("moves_out"),
        (was_out & good & in_range).alias("moves_in"),
        _first("_reasons").alias("why"),
        _first("were").alias("was_why"),
    )


def _counted(moves: DataFrame, table: Judged) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count by first reason what comes to the quarantine and what leaves it, and by name what is passed over from now on."""
    kinds = ("moves_out", "moves_in", "comes", "leaves", "skip", "why", "was_why")
    moving = moves.where("comes OR leaves OR moves_out OR moves_in OR skip IS NOT NULL")
    counts = moving.groupBy(*kinds).count().collect()
    _refuse_moves(
        table,
        out=sum(row["count"] for row in counts if row["moves_out"]),
        into=sum(row["count"] for row in counts if row["moves_in"]),
    )
    gained: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for row in counts:
        if row["skip"] is not None:
            skipped[row["skip"]] += row["count"]
        if row["comes"]:
            gained[row["why"]] += row["count"]
        if row["leaves"]:
            lost[row["was_why"]] += row["count"]
    return gained, lost, skipped


def _refuse_moves(table: Judged, *, out: int, into: int) -> None:
    """Refuse a row whose event time moves across the range's border: half of the move would be lost."""
    if out or into:
        raise DefinitionError(
            f"by today's code {out:,} rows of {table.id} leave the range and {into:,} come into it",
            hint="choose a wider range that contains both of their times, or compute the whole table again: "
            f"`strandline rebuild {table.id}`.",
            table=table.id,
            leave=out,
            come=into,
        )


def _first(reasons: str) -> Column:
    return F.get(reasons, F.lit(0))


# How far from a range of event time the rows lie from which a table's rows of that range are computed.
#
# A window is computed from its own rows, and from those that these are joined with: bids of an auction that lasts four hours
# come long after the hour in which it opened. A computation that read only the rows within a window of the range would give
# fewer rows than the stream had, and replace right ones by them.


def reach_of(spark: SparkSession, table: Derived, lake: Lake) -> timedelta | None:
    """Return how far from a range rows must be read; None where all must be.

    What the table declares counts. Without it the plan of its stream is asked: it says how far apart rows lie that are
    joined, if a condition bounds that and nothing else in the plan looks at rows of another time.
    """
    if not table.window_length:
        return None
    if table.reach or isinstance(table, Recomputed):
        return table.window_length + table.reaches
    run = framed(spark, table, lake)
    found = joined(table, run.sources, run.result).reach
    return None if found is None else table.window_length + found


# The retired tables that read one whose rows a repair changes: they are not computed again, and their streams pass over it.
#
# Such a stream can no longer go on where it ended: it would never see what came or went, and the books would not miss it. So its
# place is let go before the rows change (jobs/strandline/engine/lake/completeness.py). Those above it need nothing yet: their rows are right
# until it is computed anew, and its promotion is such a change. A recomputed table has no stream, and sees what changed by itself.


def leave_behind(table: Table, lake: Lake) -> None:
    """Let go of the places of the retired streams that read a table, because rows of it are about to change."""
    known = retired(lake)
    for each in catalog.tables() if known else ():
        reads = table.id in {source.id for source in each.upstream}
        if each.id in known and reads and not isinstance(each, Recomputed):
            let_go(each, lake)


ROLE = "backfill"
MODE = "backfill"
NONE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    spark: SparkSession
    table: Table
    lake: Lake
    span: Span
    meter: Meter
    guard: Guard | None = None

    def entry(  # noqa: PLR0913  # what it changes
        self,
        *,
        came: int,
        gone: int,
        held: Mapping[str, int],
        held_items: int = 0,
        skipped: Mapping[str, int] = NONE,
        records: int | None = None,
        through: Through = NOTHING,
    ) -> Entry:
        """Return the ledger entry of the change."""
        source = ", ".join(source.id for source in self.table.upstream)
        begun = new_entry.repair(
            self.table, MODE, f"{MODE} {uuid.uuid4()}", source, self.span.in_text()
        )
        is_judged = isinstance(self.table, Judged)
        begun = noted(begun, self.table, self.lake)
        begun = replace(begun, skipped=dict(skipped), held_items=held_items)
        return begun.exchanged(
            came=came, gone=gone, held=held, is_judged=is_judged, records=records, through=through
        )


def backfill(  # noqa: PLR0913  # which rows, who signs, and the gate
    spark: SparkSession,
    table: Table,
    lake: Lake,
    span: Span,
    signed: Signed = UNSIGNED,
    *,
    guard: Guard | None = None,
) -> Entry:
    """Compute a range of a table again while its stream runs.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: The lake.
        span: The range of event time.
        signed: Who signs for the quarantine records that the backfill releases.
        guard: Checks the range of a table that judges before it is committed; without it every range passes.

    Raises:
        DefinitionError: The stream still owns part of the range, retention deleted rows of it, or another backfill was
            interrupted.
        GateShutError: The gate of the range is shut, or the gate of a table that it reads.
    """
    refuse_open(table, lake, span)
    refuse_expired(table, lake, span.since)
    refuse_half_done(table, lake)
    refuse_behind(table, lake)
    refuse_untaken(table, lake)
    with lease(spark, table, lake, role=ROLE):
        meter = Meter(spark)
        work = _Work(spark=spark, table=table, lake=lake, span=span, meter=meter, guard=guard)
        match table:
            case Judged():
                return _rejudge(work, table, signed)
            case Windowed() | Appended() | Upserted():
                return _recompute(work, table)
            case Ingested() | Recomputed():
                message = f"{table.id} has no stream that leaves ranges behind"
                raise TypeError(message)
            case _:
                assert_never(table)


def _rejudge(work: _Work, table: Judged, signed: Signed) -> Entry:
    spark, lake, span = work.spark, work.lake, work.span
    refuse_rerouted(table, lake)
    half = _interrupted(table, lake, span)
    if not live_rows(lake.table(table)):
        raise DefinitionError(
            f"{table.id} holds no row, so there is nothing to repair",
            hint=f"`strandline quarantine replay {table.id}` brings rows from its quarantine.",
            table=table.id,
        )
    with rejudged(spark, table, lake, span) as again:
        changed = changes(again.rows, again.live).persist(StorageLevel.MEMORY_AND_DISK)
        came, gone = came_and_gone(changed)
        lost = {why: -count for why, count in again.lost.items()}
        held = Counter(half.quarantined if half else {})
        for each in (again.gained, lost):
            held.update(each)
        skipped = again.skipped + _released_before(work, table, half, again.passed)
        entry = work.entry(
            came=came,
            gone=gone,
            held={why: n for why, n in held.items() if n},
            held_items=again.held_items + (half.held_items if half else 0),
            skipped=skipped,
            records=places_in(again.rows) - places_in(again.live) if table.rows else None,
            through=again.through,
        )
        entry = _no_longer_skipped(entry, table, lake, again)
        if half is not None:  # the name of the interrupted one, so that it counts as done
            entry = replace(entry, stream=half.stream)
        if work.guard:
            verdicts = counted(again.verdicts, table)
            entry = work.guard.admit(entry, verdicts, again.verdicts, named=_name(span))
        # Release records before new ones are held: an event is never held twice.
        if lost:
            resolve(
                spark,
                table,
                lake,
                again.released,
                status=Status.BACKFILLED,
                signed=signed,
                entry=replace(entry, quarantined=lost, held_items=-again.lost_items),
            )
        if again.gained:
            coming = replace(entry, quarantined=dict(again.gained), held_items=again.gained_items)
            hold(spark, table, lake, again.held, coming)
        since = again.version if table.believes_history else None
        final = _replace(work, again.rows, changed, PLACE, entry, alone_since=since)
        changed.unpersist()
        if work.guard:
            work.guard.passed(_name(span), entry.batch)
        return final


def _released_before(
    work: _Work, table: Judged, half: Entry | None, passed: DataFrame
) -> Counter[str]:
    """Count what a backfill that was killed has released from the quarantine, because it is passed over."""
    if half is None or not table.passes_over or not is_table(work.lake.resolutions(table)):
        return Counter()
    decisions = work.spark.read.format("delta").load(str(work.lake.resolutions(table)))
    released = decisions.where(F.col("entry") == half.stream).select(*PLACE).distinct()
    return Counter(skipped_among(passed.join(released, [*PLACE], "left_semi"), table))


def _no_longer_skipped(entry: Entry, table: Judged, lake: Lake, again: Rejudged) -> Entry:
    """Take off what was passed over the records that come to the table or its quarantine, and were in neither.

    Such a record was a copy of a row that goes, or was passed over, first by a rule that the table has no more.
    """
    known = sums_of(lake.table(table)).skipped
    if not known or entry.duplicates >= 0:
        return entry
    left = again.live.join(again.rows.select(*PLACE), [*PLACE], "left_anti")
    more, skipped = -entry.duplicates - places_in(left), Counter(entry.skipped)
    names = sorted(known, key=lambda each: each in table.passed_names)
    found = 0
    for name in names if more > 0 else ():
        less = min(more - found, known[name])
        skipped[name] -= less
        found += less
    counted = {name: n for name, n in skipped.items() if n}
    return replace(entry, skipped=counted, duplicates=entry.duplicates + found)


def _name(span: Span) -> str:
    return f"range from {span.since.isoformat()} to {span.until.isoformat()}"


def _interrupted(table: Table, lake: Lake, span: Span) -> Entry | None:
    """Return the entry of a backfill of this range that was killed after it had written the quarantine.

    Raises:
        DefinitionError: Another range, or a replay, was interrupted and must be finished first.
    """
    half = unfinished(table, lake)
    if half is not None and half.mode == IMPORT:
        raise half_imported(table)
    if half is not None and half.mode == REPLAY:
        raise DefinitionError(
            f"a replay of {table.id} was interrupted before its end",
            hint=f"finish it first: `strandline quarantine replay {table.id}`.",
            table=table.id,
        )
    if half is not None and (half.since, half.until) != (
        span.since.isoformat(),
        span.until.isoformat(),
    ):
        raise DefinitionError(
            f"a backfill of {table.id} was interrupted before its end",
            hint=f"finish it first: `strandline backfill {table.id} --since {half.since} --until {half.until}`.",
            table=table.id,
        )
    return half


def _recompute(work: _Work, table: Derived) -> Entry:
    spark, lake, span = work.spark, work.lake, work.span
    moment = table.event_at
    live, read = rows_now(spark, table, lake), None
    if believed := believed_by(table):
        version, read = all_read(table, believed, lake)
        live = rows_at(spark, lake.table(table), version)
    live = live.where(span.holds(moment))
    whole, looked = computed(spark, table, lake, span, read=read)
    rows = whole.where(span.holds(moment)).persist(StorageLevel.MEMORY_AND_DISK)
    changed = changes(rows, live).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        came, gone = came_and_gone(changed)
        if came or gone:
            refuse_unfinished(table, lake, changed)
        entry = replace(work.entry(came=came, gone=gone, held={}), looked=looked)
        return _replace(work, rows, changed, table.key, entry)
    finally:
        changed.unpersist()
        rows.unpersist()


def computed(  # noqa: PLR0913  # which table, which rows, as of when
    spark: SparkSession,
    table: Derived,
    lake: Lake,
    span: Span | None = None,
    *,
    before: datetime | None = None,
    read: Mapping[str, int] | None = None,
) -> tuple[DataFrame, dict[str, int]]:
    """Compute a table in batch, and return the versions of the dimensions that it looked up.

    A range of a table with windows is computed from the rows that can fall into those windows, or be joined with them.
    With ``before`` all of it is computed as if nothing had happened from that moment on. ``read`` has versions of sources, by
    their names; of others the latest is read.
    """
    reach = reach_of(spark, table, lake) if span else None
    sources = []
    for source in table.reads:
        version = (read or {}).get(source.id)
        rows = (
            rows_now(spark, source, lake)
            if version is None
            else rows_at(spark, lake.table(source), version)
        )
        if span and reach is not None:
            near = span.wider(before=reach, after=reach)
            rows = rows.where(near.holds(source.event_at))
        if before is not None:
            rows = rows.where(F.col(source.event_at) < F.lit(before))
        sources.append(rows)
    with joining(table, lake):
        rows = table.computed(*sources)
    return adorned(spark, table, lake, rows)


def refuse_unfinished(table: Table, lake: Lake, changed: DataFrame) -> None:
    """Refuse a change of a row that is still open.

    Raises:
        DefinitionError: A changed row is open; the stream would overwrite it from its own state.
    """
    left = left_until(table, lake)
    if left is None:
        return
    unfinished_rows = changed.where(is_open(table, left)).count()
    if unfinished_rows:
        raise DefinitionError(
            f"{unfinished_rows:,} changed rows of {table.id} are still open, and its stream's state has their old values",
            hint="wait until they are closed, or rebuild the table with its stream: "
            f"`strandline rebuild {table.id}`.",
            table=table.id,
            rows=unfinished_rows,
        )


def _replace(  # noqa: PLR0913  # the rows, what they are known by, and what may not have come
    work: _Work,
    rows: DataFrame,
    changed: DataFrame,
    by: Sequence[str],
    entry: Entry,
    *,
    alone_since: int | None = None,
) -> Entry:
    """Replace the rows that changed, and no others.

    The stream may still update a row that did not change (a hold that is open), and its update must last. And a file
    whose rows did not change need not be written again.

    Args:
        work: The range and its table.
        rows: The new rows of the range.
        changed: The rows that came or went.
        by: The columns that identify a row.
        entry: The ledger entry of the change.
        alone_since: The version since which no row may have come to the range, if any could.
    """
    final = entry.closed(work.meter)
    spark, table, lake, span = work.spark, work.table, work.lake, work.span
    if not entry.came and not entry.gone:
        append_entry(spark, table, lake, final)
        return final
    leave_behind(table, lake)
    keys = changed.select(*(F.col(each).alias(f"_of_{each}") for each in by)).distinct()
    is_changed = span.holds(str(table.event_at))
    for each in by:
        is_changed &= F.col(each).eqNullSafe(F.col(f"_of_{each}"))
    exchange = Exchange(
        at=str(table.event_at),
        reach=span.in_micros(),
        goes=lambda held: held.join(keys, is_changed, "left_semi"),
        stays=lambda held: held.join(keys, is_changed, "left_anti"),
        come=rows.join(keys, is_changed, "left_semi"),
        coming=entry.came,
    )
    swap(
        spark,
        lake.table(table),
        exchange,
        final.encoded(),
        may_fill=not isinstance(table, Judged),
        alone_since=alone_since,
    )
    return final
