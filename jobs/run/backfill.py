"""A closed range of a table computed again by the same pure functions, and put in the place of what stood there.

The table's stream goes on meanwhile: it has left the range for good (jobs/run/span.py), and the two take turns to
commit (jobs/run/lease.py). Streams above pass over the commit, so nothing is read twice; tables above are
computed again where it is asked for.

A table with windows is computed from the rows near the range. One without (a hold, a join) may rest on anything
earlier, so it is computed whole, and only its rows in the range are replaced.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.balance import live_rows
from jobs.run.closing import NOBODY, Signed, hold, resolve, stand_alone
from jobs.run.gates import refuse_behind
from jobs.run.guard import Guard, counted
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry
from jobs.run.lookup import adorned
from jobs.run.meter import Meter, code_version
from jobs.run.rejudge import rejudged
from jobs.run.resolutions import REPLAY, Status, unfinished
from jobs.run.rows import rows_now
from jobs.run.shadow import refuse_half_done
from jobs.run.span import Span, is_open, left_until, length, refuse_open
from jobs.run.swap import Exchange, came_and_gone, changes, swap

ROLE = "backfill"
MODE = "backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    spark: SparkSession
    table: Table
    lake: Lake
    span: Span
    meter: Meter
    guard: Guard | None = None

    def entry(self, *, came: int, gone: int, held: Mapping[str, int]) -> Entry:
        """Say what changes; nothing is read, so what is won in one place is lost in another."""
        return Entry(
            table=self.table.id,
            mode=MODE,
            stream=f"{MODE} {uuid.uuid4()}",
            batch=0,
            source=", ".join(source.id for source in self.table.upstream),
            since=self.span.since.isoformat(),
            until=self.span.until.isoformat(),
            came=came,
            gone=gone,
            code=code_version(self.table),
        ).settled(good=(came - gone) if self.table.judges else 0, held=held, dropped=0)

    def closed(self, entry: Entry) -> Entry:
        """Add what it cost; the commit follows."""
        written = entry.came - entry.gone
        return entry.closed(
            written=written, wall_ms=self.meter.wall_ms(), cpu_ms=self.meter.cpu_ms()
        )


def backfill(  # noqa: PLR0913  # which rows, and who stands by
    spark: SparkSession,
    table: Table,
    lake: Lake,
    span: Span,
    signed: Signed = NOBODY,
    *,
    guard: Guard | None = None,
) -> Entry:
    """Compute a range of a table again while its stream goes on.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: Where.
        span: The range of event time.
        signed: By whom, for the records of the quarantine that it releases.
        guard: Stands before the range of a table that judges; every range passes without one.

    Raises:
        DefinitionError: The stream still owns some of the range, or another backfill was interrupted.
        GateShutError: The range is not believed, or what the table reads.
    """
    refuse_open(table, lake, span)
    refuse_half_done(table, lake)
    refuse_behind(table, lake)
    with lease(spark, table, lake, role=ROLE):
        meter = Meter(spark)
        work = _Work(spark=spark, table=table, lake=lake, span=span, meter=meter, guard=guard)
        return _rejudge(work, signed) if table.judges else _recompute(work)


def _rejudge(work: _Work, signed: Signed) -> Entry:
    spark, table, lake, span = work.spark, work.table, work.lake, work.span
    half = _interrupted(table, lake, span)
    if not live_rows(lake.table(table)):
        raise DefinitionError(
            f"{table.id} holds no row, so there is nothing that could be put right",
            hint=f"what is held back comes to it by `strandline quarantine replay {table.id}`.",
            table=table.id,
        )
    with rejudged(spark, table, lake, span) as found:
        changed = changes(found.rows, found.live).persist(StorageLevel.MEMORY_AND_DISK)
        came, gone = came_and_gone(changed)
        lost = {why: -count for why, count in found.lost.items()}
        held = Counter(half.quarantined if half else {})
        for each in (found.gained, lost):
            held.update(each)
        entry = work.entry(came=came, gone=gone, held={why: n for why, n in held.items() if n})
        if half is not None:  # under its name, so that it counts as done
            entry = replace(entry, stream=half.stream)
        if work.guard:
            verdicts = counted(found.verdicts, table)
            entry = work.guard.admit(entry, verdicts, found.verdicts, named=_name(span))
        # What leaves before what comes: an event is never held twice.
        if lost:
            resolve(
                spark,
                table,
                lake,
                found.released,
                status=Status.BACKFILLED,
                signed=signed,
                entry=replace(entry, quarantined=lost),
            )
        if found.gained:
            hold(spark, table, lake, found.held, replace(entry, quarantined=dict(found.gained)))
        final = _replace(work, found.rows, changed, PLACE, entry)
        changed.unpersist()
        if work.guard:
            work.guard.passed(_name(span), entry.batch)
        return final


def _name(span: Span) -> str:
    return f"range from {span.since.isoformat()} to {span.until.isoformat()}"


def _interrupted(table: Table, lake: Lake, span: Span) -> Entry | None:
    """Return the entry of a backfill of this range that was killed when it had written the quarantine's side.

    Raises:
        DefinitionError: It was of another range, or a replay, which comes first.
    """
    half = unfinished(table, lake)
    if half is not None and half.mode == REPLAY:
        raise DefinitionError(
            f"a replay of {table.id} was interrupted before it was done",
            hint=f"finish it first: `strandline quarantine replay {table.id}`.",
            table=table.id,
        )
    if half is not None and (half.since, half.until) != (
        span.since.isoformat(),
        span.until.isoformat(),
    ):
        raise DefinitionError(
            f"a backfill of {table.id} was interrupted before it was done",
            hint=f"finish it first: `strandline backfill {table.id} --since {half.since} --until {half.until}`.",
            table=table.id,
        )
    return half


def _recompute(work: _Work) -> Entry:
    spark, table, lake, span = work.spark, work.table, work.lake, work.span
    moment = str(table.event_at)
    live = rows_now(spark, table, lake).where(span.holds(moment))
    whole, looked = computed(spark, table, lake, span)
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


def computed(
    spark: SparkSession, table: Table, lake: Lake, span: Span | None = None
) -> tuple[DataFrame, dict[str, int]]:
    """Compute a table in batch, for a range from the rows that can lie in its windows; and say at what it looked."""
    if table.transform is None:
        message = f"{table.id} has no function"
        raise TypeError(message)
    reach = length(table)
    sources = []
    for source in table.upstream:
        rows = rows_now(spark, source, lake)
        if span and reach:
            near = span.wider(before=reach, after=reach)
            rows = rows.where(near.holds(str(source.event_at)))
        sources.append(rows)
    return adorned(spark, table, lake, table.transform(*sources))


def refuse_unfinished(table: Table, lake: Lake, changed: DataFrame) -> None:
    """See that no row that changes is one that the stream will speak of again.

    Raises:
        DefinitionError: One is; the stream would put its own word in the place of the new one.
    """
    left = left_until(table, lake)
    if left is None:
        return
    unfinished_rows = changed.where(is_open(table, left)).count()
    if unfinished_rows:
        raise DefinitionError(
            f"{unfinished_rows:,} rows of {table.id} that change are still open, and its stream knows them as they were",
            hint="wait until they have ended, or make the table anew with its stream: "
            f"`strandline rebuild {table.id}`.",
            table=table.id,
            rows=unfinished_rows,
        )


def _replace(
    work: _Work, rows: DataFrame, changed: DataFrame, by: Sequence[str], entry: Entry
) -> Entry:
    """Exchange the rows that changed, and no others.

    The stream may speak again of one that did not (a hold that is open), and what it says meanwhile must last. Nor
    need a file be written again because it holds rows that are as they were.

    Args:
        work: What is computed again.
        rows: What the range is now.
        changed: The rows that came or went.
        by: The columns that tell one row from another.
        entry: What the ledger says of it.
    """
    final = work.closed(entry)
    spark, table, lake, span = work.spark, work.table, work.lake, work.span
    if not entry.came and not entry.gone:
        stand_alone(spark, table, lake, final)
        return final
    keys = changed.select(*(F.col(each).alias(f"_of_{each}") for each in by)).distinct()
    is_meant = span.holds(str(table.event_at))
    for each in by:
        is_meant &= F.col(each).eqNullSafe(F.col(f"_of_{each}"))
    exchange = Exchange(
        at=str(table.event_at),
        reach=span.in_micros(),
        goes=lambda held: held.join(keys, is_meant, "left_semi"),
        stays=lambda held: held.join(keys, is_meant, "left_anti"),
        come=rows.join(keys, is_meant, "left_semi"),
        coming=entry.came,
    )
    swap(spark, lake.table(table), exchange, final.encoded(), may_fill=not table.judges)
    return final
