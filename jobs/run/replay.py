"""Rows of a quarantine that today's rules believe come to silver, exactly once, while its stream goes on.

The order of the commits, each with the replay's name in its ledger entry:

    1. the resolutions: which records are released, and what becomes of each
    2. the quarantine: new records of rows that are bad for other reasons than before
    3. the table: the rows that come, those that are not the first copy any more, and what the ledger says of all three
    4. each table that rests on the range
    5. the resolutions again: all of it was computed

Killed between any two of them, `strandline ledger` names it, and the next replay finishes it before anything else: up
to 3 the rows of its resolutions are judged again and go where they belong, after 3 the tables above are computed
again. No step looks at what a step before it may have left half written, because each is one Delta commit.

The table that was replayed whole is what a computation of everything gives by today's rules, as long as they only
believe more than before; a rule that believes less speaks of rows of silver, which is what a backfill looks at.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.above import (
    backfill_above,
    closed_above,
    furthest_behind,
    led,
    possible_above,
    refuse_behind_above,
)
from jobs.run.backfill import ROLE
from jobs.run.balance import in_force, live_rows
from jobs.run.closing import NOBODY, Signed, hold, open_records, records, resolve, stand_alone
from jobs.run.heal import Choice, Fate, Healing, Replayed, healing
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry, entries, last_entry, latest_version
from jobs.run.meter import Meter, code_version
from jobs.run.resolutions import (
    FOLLOWED,
    REPLAY,
    Status,
    generation,
    refuse_unheld,
    unfinished,
    unfollowed,
)
from jobs.run.shadow import refuse_half_done
from jobs.run.span import Span, refuse_streamless
from jobs.run.swap import Exchange, swap

Tell = Callable[[Table, Entry | None], None]
"""Hears of each table that was written, or that had nothing to do."""

STATUS = {
    Fate.HEALS: Status.REPLAYED,
    Fate.DUPLICATE: Status.DUPLICATE,
    Fate.CHANGES: Status.STILL_BAD,
}


def refuse_unfit(table: Table, lake: Lake) -> None:
    """See, before Spark is started, that rows of a quarantine can be replayed at all.

    Raises:
        DefinitionError: The table has no quarantine, no stream made it or a table above, or a promotion or a
            backfill was interrupted.
    """
    refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    for each in (table, *led(table, lake)):
        if each == table or last_entry(lake.table(each)) is not None:
            refuse_streamless(each, lake)
    refuse_half_backfilled(table, lake)


def refuse_half_backfilled(table: Table, lake: Lake) -> None:
    """See that no backfill was interrupted, because it has to say where its rows go.

    Raises:
        DefinitionError: One was.
    """
    half = unfinished(table, lake)
    if half is not None and half.mode != REPLAY:
        raise DefinitionError(
            f"a backfill of {table.id} was interrupted before it was done",
            hint=f"finish it first: `strandline backfill {table.id} --since {half.since} --until {half.until}`.",
            table=table.id,
        )


def rehearse(spark: SparkSession, table: Table, lake: Lake, choice: Choice) -> Replayed:
    """Say what a replay would do; nothing is written."""
    refuse_unfit(table, lake)
    chosen = open_records(spark, table, lake).where(choice.holds())
    with healing(spark, table, lake, chosen, closed_above(table, lake)) as found:
        return _told(table, lake, found)


def replay(  # noqa: PLR0913  # where, what, who, and one who listens
    spark: SparkSession,
    table: Table,
    lake: Lake,
    choice: Choice | None = None,
    signed: Signed = NOBODY,
    *,
    tell: Tell = lambda _, __: None,
) -> Replayed:
    """Bring rows to silver that today's rules believe; finishes first what was interrupted.

    Args:
        spark: The session.
        table: A judged table.
        lake: Where.
        choice: Which rows; all that are open when absent.
        signed: By whom.
        tell: Hears of each table.

    Raises:
        DefinitionError: See ``refuse_unfit``.
        TransientError: Another replay or backfill is under way.
        GateShutError: What rests on the rows could not follow.
    """
    refuse_unfit(table, lake)
    refuse_behind_above(table, lake)
    with lease(spark, table, lake, role=ROLE):
        refuse_half_backfilled(table, lake)
        work = Work(
            spark=spark, table=table, lake=lake, signed=signed, tell=tell, meter=Meter(spark)
        )
        _finish(work)
        chosen = open_records(spark, table, lake).where((choice or Choice()).holds())
        with healing(spark, table, lake, chosen, closed_above(table, lake)) as found:
            told = _told(table, lake, found)
            done = begin(work, found, found.touched) if found.touched else None
        if done is not None:
            _follow(work, done)
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a replay works with."""

    spark: SparkSession
    table: Table
    lake: Lake
    signed: Signed
    tell: Tell
    meter: Meter


def _told(table: Table, lake: Lake, found: Healing) -> Replayed:
    waits, touched = found.waits_until, found.touched
    return Replayed(
        table=table.id,
        rows=found.count(*Fate),
        healed=found.count(Fate.HEALS),
        duplicates=found.count(Fate.DUPLICATE),
        changed=found.count(Fate.CHANGES),
        remain=found.count(Fate.REMAINS),
        wait=found.count(Fate.WAITS),
        waits_for=furthest_behind(table, lake).id if waits else None,
        possible_from=possible_above(table, lake, waits).isoformat() if waits else None,
        kinds=found.kinds,
        since=touched.since.isoformat() if touched else None,
        until=touched.until.isoformat() if touched else None,
    )


def begin(work: Work, found: Healing, span: Span) -> Entry:
    """Release what moves, and bring it where it belongs."""
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
    released = {why: -count for why, count in found.lost.items()}
    _release(work, found.moving, replace(begun, quarantined=released))
    return _bring(work, found, begun, released)


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


def _bring(work: Work, found: Healing, begun: Entry, released: Mapping[str, int]) -> Entry:
    """Put what was released where it belongs: the quarantine again, or the table."""
    spark, table, lake, meter = work.spark, work.table, work.lake, work.meter
    if found.gained:
        hold(spark, table, lake, found.held, replace(begun, quarantined=dict(found.gained)))
    held = Counter(released)
    held.update(found.gained)
    came, gone = found.came_and_gone
    entry = replace(begun, came=came, gone=gone).settled(
        good=came - gone, held={why: count for why, count in held.items() if count}, dropped=0
    )
    final = entry.closed(written=came - gone, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
    if not came and not gone:
        stand_alone(spark, table, lake, final)
    elif not live_rows(lake.table(table)):  # no stream has read anything of it
        commit = delta.Commit(spark, lake.table(table))
        commit.write(found.rows)
        commit.commit(final.encoded())
    else:
        places = found.gone
        exchange = Exchange(
            at=str(table.event_at),
            goes=lambda rows: rows.join(places, [*PLACE], "left_semi"),
            stays=lambda rows: rows.join(places, [*PLACE], "left_anti"),
            come=found.rows,
            coming=came,
            **({"reach": found.touched.in_micros()} if found.touched else {}),
        )
        swap(spark, lake.table(table), exchange, final.encoded())
    work.tell(table, final)
    return final


def _finish(work: Work) -> None:
    """Finish a replay that was killed, if there is one."""
    spark, table, lake = work.spark, work.table, work.lake
    half = unfinished(table, lake)
    if half is not None:
        said = spark.read.format("delta").load(str(lake.resolutions(table)))
        held = records(spark, table, lake).select(*PLACE)
        astray = said.where(F.col("entry") == half.stream).join(held, [*PLACE], "left_anti")
        chosen = astray.withColumn("reasons", F.lit(None).cast("array<string>"))
        with healing(spark, table, lake, chosen, closed_above(table, lake)) as found:
            if found.count(Fate.WAITS):
                raise DefinitionError(
                    f"a replay of {table.id} was interrupted, and by today's code {found.count(Fate.WAITS):,} of its "
                    "rows have a time that a stream still owns",
                    hint="finish it with the code that it began with.",
                    table=table.id,
                )
            _bring(
                work, found, replace(half, quarantined={}, versions={}, written=0), half.quarantined
            )
    told = [entry for _, entry in in_force(list(entries(lake.table(table))))]
    while (unled := unfollowed(table, lake, told)) is not None:
        _follow(work, unled)


def _follow(work: Work, done: Entry) -> None:
    """Compute again what rests on the range of a replay, and say that it was."""
    spark, table, lake = work.spark, work.table, work.lake
    if not done.came and not done.gone:
        return
    since, until = (datetime.fromisoformat(str(at)) for at in (done.since, done.until))
    for other, entry in backfill_above(spark, table, lake, Span(since=since, until=until)):
        work.tell(other, entry)
    quarantine, name = lake.quarantine(table), f"quarantine.{table.name}"
    mark = Entry(
        table=table.id,
        mode=FOLLOWED,
        stream=done.stream,
        batch=0,
        source=name,
        versions={name: (generation(quarantine).begun, latest_version(quarantine))},
        since=done.since,
        until=done.until,
    )
    delta.Commit(spark, lake.resolutions(table)).commit(mark.encoded())
