"""Backfill: compute a closed range of a table again by the same pure functions, and replace its rows.

The table's stream runs meanwhile: it has left the range for good (jobs/strandline/engine/repair/closed_range.py), and the two
take turns to commit (jobs/strandline/engine/storage/locks.py). Streams above skip the commit, so nothing is read twice; tables
above are computed again on request.

A table with windows is computed from the rows that can fall into them or be joined with those (jobs/strandline/engine/repair/reach.py).
Where it is not known how far these lie away, and for a table without windows (a hold, a join), which may depend on any
earlier row, it is computed whole, and only its rows in the range are replaced.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.received import PLACE
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
from strandline.engine.gates.batch_check import Guard, counted
from strandline.engine.gates.gate_files import refuse_behind
from strandline.engine.pipeline.dimension_lookup import adorned
from strandline.engine.pipeline.shadow_lake import refuse_half_done
from strandline.engine.quarantine.resolutions import REPLAY, Status, half_imported, unfinished
from strandline.engine.quarantine.write import UNSIGNED, Signed, append_entry, hold, resolve
from strandline.engine.repair.closed_range import Span, is_open, left_until, refuse_open
from strandline.engine.repair.leave_behind import leave_behind
from strandline.engine.repair.reach import reach_of
from strandline.engine.repair.read_together import all_read, believed_by
from strandline.engine.repair.rejudge_range import rejudged
from strandline.engine.runtime.meter import Meter, code_version
from strandline.engine.storage.horizon import refuse_expired
from strandline.engine.storage.import_marks import IMPORT
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import NOTHING, Entry, Through
from strandline.engine.storage.locks import lease
from strandline.engine.storage.open_table import live_rows
from strandline.engine.storage.read_version import rows_at, rows_now
from strandline.engine.storage.replace_rows import Exchange, came_and_gone, changes, swap

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

    def entry(
        self, *, came: int, gone: int, held: Mapping[str, int], through: Through = NOTHING
    ) -> Entry:
        """Return the ledger entry of the change. No new event is read, so a gain in one place is a loss in another."""
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
        ).settled(
            good=(came - gone) if isinstance(self.table, Judged) else 0,
            held=held,
            dropped=0,
            through=through,
        )

    def closed(self, entry: Entry) -> Entry:
        """Add the cost; the commit follows."""
        written = entry.came - entry.gone
        return entry.closed(
            written=written, wall_ms=self.meter.wall_ms(), cpu_ms=self.meter.cpu_ms()
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
        entry = work.entry(
            came=came,
            gone=gone,
            held={why: n for why, n in held.items() if n},
            through=again.through,
        )
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
                entry=replace(entry, quarantined=lost),
            )
        if again.gained:
            hold(spark, table, lake, again.held, replace(entry, quarantined=dict(again.gained)))
        since = again.version if table.believes_history else None
        final = _replace(work, again.rows, changed, PLACE, entry, alone_since=since)
        changed.unpersist()
        if work.guard:
            work.guard.passed(_name(span), entry.batch)
        return final


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
    return adorned(spark, table, lake, table.transform(*sources))


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
    final = work.closed(entry)
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
