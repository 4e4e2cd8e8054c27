"""Replay: bring held rows that pass today's rules to silver, exactly once, while its stream runs.

The order of the commits, each with the replay's name in its ledger entry:

    1. the resolutions: which records are released, and what becomes of each
    2. the quarantine: new records of rows that are bad for other reasons than before
    3. the table: the rows that come, the rows that go because an earlier copy came, and the ledger entry of 1 to 3
    4. each table downstream of the range
    5. the resolutions again: steps 1 to 4 are done

If a replay is killed between two of them, `strandline ledger` names it, and the next replay finishes it first: before
step 3 the rows of its resolutions are judged again and go where they belong, after it the tables above are computed
again. No step meets the half-written work of another, because each is one Delta commit.

A table that was replayed whole equals a computation of everything by today's rules, if the rules became only
more lenient. A stricter rule concerns rows of silver, and a backfill judges those.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.received import PLACE
from strandline.core.table import Judged, Table
from strandline.engine.pipeline.shadow_lake import refuse_half_done
from strandline.engine.quarantine.resolutions import (
    FOLLOWED,
    REPLAY,
    Status,
    generation,
    half_imported,
    refuse_unheld,
    unfinished,
    unfollowed,
)
from strandline.engine.quarantine.write import (
    UNSIGNED,
    Signed,
    hold,
    open_records,
    records,
    resolve,
)
from strandline.engine.repair.backfill import ROLE
from strandline.engine.repair.closed_range import Span, refuse_streamless
from strandline.engine.repair.downstream import (
    backfill_above,
    closed_above,
    furthest_behind,
    led,
    possible_above,
    refuse_behind_above,
    refuse_unbounded_above,
)
from strandline.engine.repair.replay_plan import Choice, Fate, Healing, Replayed, healing
from strandline.engine.repair.write_healed import write_healed
from strandline.engine.runtime.meter import Meter, code_version
from strandline.engine.storage import delta_commit
from strandline.engine.storage.import_marks import IMPORT
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, last_entry, latest_version
from strandline.engine.storage.locks import lease

OnTable = Callable[[Table, Entry | None], None]

STATUS = {
    Fate.HEALS: Status.REPLAYED,
    Fate.DUPLICATE: Status.DUPLICATE,
    Fate.CHANGES: Status.STILL_BAD,
}


def refuse_unfit(table: Table, lake: Lake) -> Judged:
    """Refuse, before Spark is started, a quarantine whose rows cannot be replayed; return the judged table.

    Raises:
        DefinitionError: The table has no quarantine, no stream made it or a table above, or a promotion or a
            backfill was interrupted.
    """
    judged = refuse_unled(table, lake)
    refuse_half_backfilled(table, lake)
    return judged


def refuse_unled(table: Table, lake: Lake) -> Judged:
    """Refuse the same, whatever was interrupted in the table itself."""
    judged = refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    for each in (table, *led(table, lake)):
        if each == table or last_entry(lake.table(each)) is not None:
            refuse_streamless(each, lake)
    refuse_unbounded_above(table, lake)
    return judged


def refuse_half_backfilled(table: Table, lake: Lake) -> None:
    """Refuse while a backfill is interrupted, because it decides where its rows go.

    Raises:
        DefinitionError: A backfill was interrupted.
    """
    half = unfinished(table, lake)
    if half is not None and half.mode == IMPORT:
        raise half_imported(table)
    if half is not None and half.mode != REPLAY:
        raise DefinitionError(
            f"a backfill of {table.id} was interrupted before its end",
            hint=f"finish it first: `strandline backfill {table.id} --since {half.since} --until {half.until}`.",
            table=table.id,
        )


def rehearse(spark: SparkSession, table: Table, lake: Lake, choice: Choice) -> Replayed:
    """Return what a replay would do; nothing is written."""
    table = refuse_unfit(table, lake)
    chosen = open_records(spark, table, lake).where(choice.holds())
    with healing(spark, table, lake, chosen, closed_above(table, lake)) as healed:
        return _summary(table, lake, healed)


def replay(  # noqa: PLR0913  # where, what, who, and a callback
    spark: SparkSession,
    table: Table,
    lake: Lake,
    choice: Choice | None = None,
    signed: Signed = UNSIGNED,
    *,
    on_table: OnTable = lambda _, __: None,
) -> Replayed:
    """Bring held rows that pass today's rules to silver; finish an interrupted replay first.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        choice: Which rows; all open rows when absent.
        signed: Who signs for it.
        on_table: Called for each table that was written, and with None for a table that had nothing to do.

    Raises:
        DefinitionError: See ``refuse_unfit``.
        TransientError: Another replay or backfill is under way.
        GateShutError: A shut gate keeps a downstream table from following.
    """
    table = refuse_unfit(table, lake)
    refuse_behind_above(table, lake)
    with lease(spark, table, lake, role=ROLE):
        refuse_half_backfilled(table, lake)
        meter = Meter(spark)
        work = Work(
            spark=spark, table=table, lake=lake, signed=signed, on_table=on_table, meter=meter
        )
        _finish(work)
        chosen = open_records(spark, table, lake).where((choice or Choice()).holds())
        with healing(spark, table, lake, chosen, closed_above(table, lake)) as healed:
            summary = _summary(table, lake, healed)
            done = begin(work, healed, healed.touched) if healed.touched else None
        if done is not None:
            _follow(work, done)
        return summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The arguments that the steps of a replay share."""

    spark: SparkSession
    table: Judged
    lake: Lake
    signed: Signed
    on_table: OnTable
    meter: Meter


def _summary(table: Table, lake: Lake, healed: Healing) -> Replayed:
    waits, touched = healed.waits_until, healed.touched
    return Replayed(
        table=table.id,
        rows=healed.count(*Fate),
        healed=healed.count(Fate.HEALS),
        duplicates=healed.count(Fate.DUPLICATE),
        changed=healed.count(Fate.CHANGES),
        remain=healed.count(Fate.REMAINS),
        wait=healed.count(Fate.WAITS),
        waits_for=furthest_behind(table, lake).id if waits else None,
        possible_from=possible_above(table, lake, waits).isoformat() if waits else None,
        kinds=healed.kinds,
        since=touched.since.isoformat() if touched else None,
        until=touched.until.isoformat() if touched else None,
    )


def begin(work: Work, healed: Healing, span: Span) -> Entry:
    """Release the rows that move, and write them where they belong.

    Raises:
        DefinitionError: The table's function has several rows for one of the records.
    """
    if healed.through.made:
        raise DefinitionError(
            f"the function of {work.table.id} gives {healed.through.made:,} more rows than there are held records",
            hint="one record is one row, or it cannot be released once; make several rows out of one in a table above.",
            table=work.table.id,
        )
    begun = Entry(
        table=work.table.id,
        mode=REPLAY,
        stream=f"{REPLAY} {uuid.uuid4()}",
        batch=0,
        source=f"quarantine.{work.table.name}",
        since=span.since.isoformat(),
        until=span.until.isoformat(),
        code=code_version(work.table),
    )
    released = {why: -count for why, count in healed.lost.items()}
    _release(work, healed.moving, replace(begun, quarantined=released))
    return _bring(work, healed, begun, released)


def _release(work: Work, moving: DataFrame, entry: Entry) -> None:
    status = F.col("_fate")
    became = F.when(status == F.lit(Fate.HEALS.value), STATUS[Fate.HEALS].value)
    for fate in (Fate.DUPLICATE, Fate.CHANGES):
        became = became.when(status == F.lit(fate.value), STATUS[fate].value)
    resolve(
        work.spark,
        work.table,
        work.lake,
        open_records(work.spark, work.table, work.lake).join(moving, [*PLACE]),
        status=became,
        signed=work.signed,
        entry=entry,
    )


def _bring(work: Work, healed: Healing, begun: Entry, released: Mapping[str, int]) -> Entry:
    """Write released rows where they belong: to the quarantine again, or to the table."""
    spark, table, lake, meter = work.spark, work.table, work.lake, work.meter
    if healed.gained:
        hold(spark, table, lake, healed.held, replace(begun, quarantined=dict(healed.gained)))
    held = Counter(released)
    held.update(healed.gained)
    came, gone = healed.came_and_gone
    entry = replace(begun, came=came, gone=gone).settled(
        good=came - gone, held={why: count for why, count in held.items() if count}, dropped=0
    )
    final = entry.closed(written=came - gone, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
    write_healed(spark, table, lake, healed, final)
    work.on_table(table, final)
    return final


def _finish(work: Work) -> None:
    """Finish a replay that was killed, if there is one."""
    spark, table, lake = work.spark, work.table, work.lake
    half = unfinished(table, lake)
    if half is not None:
        decisions = spark.read.format("delta").load(str(lake.resolutions(table)))
        held = records(spark, table, lake).select(*PLACE)
        released = decisions.where(F.col("entry") == half.stream)
        missing = released.join(held, [*PLACE], "left_anti")
        chosen = missing.withColumn("reasons", F.lit(None).cast("array<string>"))
        with healing(spark, table, lake, chosen, closed_above(table, lake)) as healed:
            if healed.count(Fate.WAITS):
                raise DefinitionError(
                    f"a replay of {table.id} was interrupted, and by today's code {healed.count(Fate.WAITS):,} of its "
                    "rows have a time that a stream still owns",
                    hint="finish it with the code that began it.",
                    table=table.id,
                )
            again = replace(half, quarantined={}, versions={}, written=0)
            _bring(work, healed, again, half.quarantined)
    while (unled := unfollowed(table, lake)) is not None:
        _follow(work, unled)


def _follow(work: Work, done: Entry) -> None:
    """Compute the tables downstream of a replay's range again, and record that it was done."""
    spark, table, lake = work.spark, work.table, work.lake
    if not done.came and not done.gone:
        return
    since, until = (datetime.fromisoformat(str(at)) for at in (done.since, done.until))
    for other, entry in backfill_above(spark, table, lake, Span(since=since, until=until)):
        work.on_table(other, entry)
    quarantine, name = lake.quarantine(table), f"quarantine.{table.name}"
    mark = Entry(
        table=table.id,
        mode=FOLLOWED,
        stream=done.stream,
        batch=0,
        source=name,
        versions={name: (generation(quarantine), latest_version(quarantine))},
        since=done.since,
        until=done.until,
    )
    delta_commit.Commit(spark, lake.resolutions(table)).commit(mark.encoded())
