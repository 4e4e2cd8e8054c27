"""Replay: bring held rows that pass today's rules to silver, exactly once, while its stream runs; and discard those that never will, with the reason why.

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
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.table import Judged, Table
from strandline.core.topic import ITEM, PLACE
from strandline.engine.accounting.held_records import (
    DISCARD,
    FOLLOWED,
    REOPEN,
    REPLAY,
    UNSIGNED,
    Signed,
    State,
    Status,
    append_entry,
    generation,
    half_imported,
    hold,
    open_records,
    records,
    refuse_unheld,
    resolve,
    resolved,
    unfinished,
    unfollowed,
)
from strandline.engine.flow import new_entry
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.replace_rows import Exchange, swap
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import IMPORT, Entry, last_entry, latest_version
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.static_versions import refuse_untaken
from strandline.engine.repair.backfill import ROLE, leave_behind
from strandline.engine.repair.closed_range import (
    Span,
    refuse_rerouted,
    refuse_streamless,
)
from strandline.engine.repair.downstream import (
    backfill_above,
    closed_above,
    furthest_behind,
    led,
    possible_above,
    refuse_behind_above,
    refuse_unbounded_above,
)
from strandline.engine.repair.plan_replay import (
    PLACE_OF_ITEM,
    Fate,
    Healing,
    Kind,
    apart,
    healing,
)
from strandline.engine.runtime.jvm import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A selection of quarantined rows; without arguments it selects all.

    Args:
        reason: Rows that have this reason, perhaps among others.
        span: Rows of this range of event time; of arrival time, where a row has no event time.
        place: The row of this place in Kafka: topic, partition, offset.
    """

    reason: str | None = None
    span: Span | None = None
    place: tuple[str, int, int] | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether all rows are selected."""
        return self == Choice()

    def holds(self) -> Column:
        """Return the condition that a record is selected."""
        wanted = [F.lit(True)]
        if self.reason is not None:
            wanted.append(F.array_contains("reasons", self.reason))
        if self.span is not None:
            wanted.append(self.span.holds(F.coalesce("event_at", "_arrived_at")))
        if self.place is not None:
            wanted += [F.col(n) == F.lit(v) for n, v in zip(PLACE, self.place, strict=True)]
        return reduce(lambda a, b: a & b, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay did, or would do.

    Args:
        table: The table's one name.
        rows: How many open rows were judged.
        healed: How many of them are in silver now.
        duplicates: How many are copies of a row that counts.
        changed: How many are bad for other reasons than before.
        skipped: How many the table passes over by a rule.
        remain: How many are bad as before.
        wait: How many would heal, but a stream still owns their time.
        waits_for: The table whose stream is furthest behind, if rows wait.
        possible_from: The event time that must have been read before the newest of these can heal.
        kinds: The same counts by reasons, before and after.
        since: The start of the touched range.
        until: Its end.
    """

    table: str
    rows: int
    healed: int
    duplicates: int
    changed: int
    skipped: int
    remain: int
    wait: int
    waits_for: str | None
    possible_from: str | None
    kinds: tuple[Kind, ...]
    since: str | None
    until: str | None


# Write judged rows of closed time into a judged table: those that come, without those in whose place they come.


def write_healed(
    spark: SparkSession, table: Judged, lake: Lake, healed: Healing, final: Entry
) -> None:
    """Commit the rows of a plan together with their ledger entry, which counts them in ``came`` and ``gone``."""
    if not final.came and not final.gone:
        append_entry(spark, table, lake, final)
        return
    leave_behind(table, lake)
    if not live_rows(lake.table(table)):  # no stream has read a row of it yet
        commit = delta_commit.Commit(spark, lake.table(table))
        commit.write(healed.rows)
        commit.commit(final.encoded())
    else:
        places = healed.gone
        exchange = Exchange(
            at=table.event_at,
            goes=lambda rows: rows.join(places, [*PLACE], "left_semi"),
            stays=lambda rows: rows.join(places, [*PLACE], "left_anti"),
            come=healed.rows,
            coming=final.came,
            **({"reach": healed.touched.in_micros()} if healed.touched else {}),
        )
        since = healed.version if table.believes_history else None
        swap(spark, lake.table(table), exchange, final.encoded(), alone_since=since)


OnTable = Callable[[Table, Entry | None], None]

STATUS = {
    Fate.HEALS: Status.REPLAYED,
    Fate.DUPLICATE: Status.DUPLICATE,
    Fate.CHANGES: Status.STILL_BAD,
    Fate.SKIPPED: Status.SKIPPED,
}


def refuse_unfit(table: Table, lake: Lake) -> Judged:
    """Refuse, before Spark is started, a quarantine whose rows cannot be replayed; return the judged table.

    Raises:
        DefinitionError: The table has no quarantine, no stream made it or a table above, or a promotion or a
            backfill was interrupted.
    """
    judged = refuse_unled(table, lake)
    refuse_rerouted(judged, lake)
    refuse_half_backfilled(table, lake)
    return judged


def refuse_unled(table: Table, lake: Lake) -> Judged:
    """Refuse the same, whatever was interrupted in the table itself."""
    judged = refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    refuse_untaken(table, lake)
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
    meter: Meter
    signed: Signed = UNSIGNED
    on_table: OnTable = lambda _, __: None


def _summary(table: Table, lake: Lake, healed: Healing) -> Replayed:
    waits, touched = healed.waits_until, healed.touched
    return Replayed(
        table=table.id,
        rows=healed.count(*Fate),
        healed=healed.count(Fate.HEALS),
        duplicates=healed.count(Fate.DUPLICATE),
        changed=healed.count(Fate.CHANGES),
        skipped=healed.count(Fate.SKIPPED),
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
            hint="one record is one row of the function, or it cannot be released once; let it have the list in a column, and "
            'declare that: rows="items".',
            table=work.table.id,
        )
    source = f"quarantine.{work.table.name}"
    begun = new_entry.repair(work.table, REPLAY, f"{REPLAY} {uuid.uuid4()}", source, span.in_text())
    released = {why: -count for why, count in healed.lost.items()}
    entry = replace(begun, quarantined=released, held_items=-healed.lost_items)
    release(work, healed.moving, entry)
    return _bring(work, healed, begun, released, -healed.lost_items)


def release(work: Work, moving: DataFrame, entry: Entry) -> None:
    """Note of the held records that move what became of each."""
    status = F.col("_fate")
    became = F.when(status == F.lit(Fate.HEALS.value), STATUS[Fate.HEALS].value)
    for fate in (Fate.DUPLICATE, Fate.CHANGES, Fate.SKIPPED):
        became = became.when(status == F.lit(fate.value), STATUS[fate].value)
    held = records(work.spark, work.table, work.lake)
    if ITEM in held.columns:
        # Items of a record that goes are released, also where they were discarded.
        held = held.where((F.col("_state") == State.OPEN.value) | F.col(ITEM).isNotNull())
        moving = moving.withColumnRenamed(ITEM, "_of")
        closing = held.join(moving, [*PLACE]).where(F.col(ITEM).eqNullSafe(F.col("_of")))
    else:
        held = held.where(F.col("_state") == State.OPEN.value)
        closing = held.join(moving.drop(ITEM), [*PLACE])
    resolve(
        work.spark,
        work.table,
        work.lake,
        closing,
        status=became,
        signed=work.signed,
        entry=entry,
    )


def _bring(
    work: Work,
    healed: Healing,
    begun: Entry,
    released: Mapping[str, int],
    released_items: int,
) -> Entry:
    """Write released rows where they belong: to the quarantine again, or to the table."""
    spark, table, lake = work.spark, work.table, work.lake
    if healed.gained:
        coming = replace(begun, quarantined=dict(healed.gained), held_items=healed.gained_items)
        hold(spark, table, lake, healed.held, coming)
    held = Counter(released)
    held.update(healed.gained)
    came, gone = healed.came_and_gone
    remaining = {why: count for why, count in held.items() if count}
    items = released_items + healed.gained_items
    begun = replace(begun, skipped=dict(healed.skipped), held_items=items)
    final = begun.exchanged(came=came, gone=gone, held=remaining, records=healed.records).closed(
        work.meter
    )
    write_healed(spark, table, lake, healed, final)
    work.on_table(table, final)
    return final


def _finish(work: Work) -> None:
    """Finish a replay that was killed, if there is one."""
    spark, table, lake = work.spark, work.table, work.lake
    half = unfinished(table, lake)
    if half is not None:
        decisions = spark.read.format("delta").load(str(lake.resolutions(table)))
        released = decisions.where(F.col("entry") == half.stream)
        held, items = apart(records(spark, table, lake))
        missing, missing_items = apart(released)
        missing = missing.join(held, [*PLACE], "left_anti")
        if missing_items is not None and items is not None:
            left = missing_items.join(items, [*PLACE_OF_ITEM], "left_anti")
            missing = missing.unionByName(left)
        chosen = missing.withColumn("reasons", F.lit(None).cast("array<string>"))
        with healing(spark, table, lake, chosen, closed_above(table, lake), items) as healed:
            if healed.count(Fate.WAITS):
                raise DefinitionError(
                    f"a replay of {table.id} was interrupted, and by today's code {healed.count(Fate.WAITS):,} of its "
                    "rows have a time that a stream still owns",
                    hint="finish it with the code that began it.",
                    table=table.id,
                )
            if stays := healed.left_nowhere:
                raise DefinitionError(
                    f"a replay of {table.id} was interrupted, and by today's code {stays:,} items that it released are neither "
                    "rows nor held",
                    hint="finish it with the code that began it.",
                    table=table.id,
                )
            again = replace(half, quarantined={}, held_items=0, versions={}, written=0)
            _bring(work, healed, again, half.quarantined, half.held_items)
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
    mark = replace(
        new_entry.mark_of_range(
            table, FOLLOWED, done.stream, name, (str(done.since), str(done.until))
        ),
        versions={name: (generation(quarantine), latest_version(quarantine))},
    )
    delta_commit.Commit(spark, lake.resolutions(table)).commit(mark.encoded())


# Discard open rows of a quarantine, with the reason why, and reopen them.
#
# The books do not change: the event is in no other place, so the ledger counts it as quarantined as before. But no
# operator has to look at it any more, and replays skip it. Each is one commit, so nothing can be left half done.


def refuse_undiscardable(table: Table, lake: Lake) -> None:
    """Refuse, before Spark is started, a quarantine in which a decision would not last.

    Raises:
        DefinitionError: The table has no quarantine, a batch replaces it as a whole, or another verb was interrupted.
    """
    refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    refuse_streamless(table, lake)
    half = unfinished(table, lake)
    if half is not None:
        raise DefinitionError(
            f"a {half.mode} of {table.id} was interrupted, so it is unknown which of its rows are open",
            hint="`strandline ledger` prints the command that finishes it.",
            table=table.id,
        )


def refuse_vague(table: Table, choice: Choice, signed: Signed) -> None:
    """Refuse a discard that does not name its rows and the reason.

    Raises:
        DefinitionError: One of the two is missing.
    """
    if choice.is_whole or not signed.why:
        raise DefinitionError(
            "a discard must name its rows and the reason",
            hint='give --reason or --at, and --because "…".',
            table=table.id,
        )


def discard(spark: SparkSession, table: Table, lake: Lake, choice: Choice, signed: Signed) -> int:
    """Discard open rows, and return how many.

    Raises:
        DefinitionError: No open row matches, rows or reason are not named, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_vague(table, choice, signed)
    refuse_undiscardable(table, lake)
    with lease(spark, table, lake, role=ROLE):
        chosen = open_records(spark, table, lake).where(choice.holds())
        if not chosen.limit(1).count():
            raise _none(table, "no open row that matches")
        done = resolve(
            spark,
            table,
            lake,
            chosen,
            status=Status.DISCARDED,
            signed=signed,
            entry=new_entry.mark(table, DISCARD, f"{DISCARD} {uuid.uuid4()}"),
        )
        return done.written


def reopen(spark: SparkSession, table: Table, lake: Lake, signed: Signed) -> int:
    """Undo the last discard, and return how many rows are open again.

    Raises:
        DefinitionError: There is no discard to undo, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_undiscardable(table, lake)
    with lease(spark, table, lake, role=ROLE):
        last = _last(table, lake)
        decisions = spark.read.format("delta").load(str(lake.resolutions(table)))
        places = decisions.where(F.col("entry") == last.stream).select(*PLACE, "reasons")
        discarded = records(spark, table, lake).where(F.col("_state") == State.DISCARDED.value)
        done = resolve(
            spark,
            table,
            lake,
            discarded.join(places, [*PLACE, "reasons"], "left_semi"),
            status=Status.REOPENED,
            signed=signed,
            entry=new_entry.mark(table, REOPEN, f"{REOPEN} {last.stream}"),
        )
        return done.written


def _last(table: Table, lake: Lake) -> Entry:
    """Return the newest discard that was not undone."""
    decided = resolved(table, lake)
    undone = {entry.stream for entry in decided if entry.mode == REOPEN}
    for entry in reversed(decided):
        if entry.mode == DISCARD and f"{REOPEN} {entry.stream}" not in undone:
            return entry
    raise _none(table, "no discard to undo")


def _none(table: Table, what: str) -> DefinitionError:
    return DefinitionError(
        f"the quarantine of {table.id} has {what}",
        hint=f"`strandline quarantine list {table.id}` prints what is open.",
        table=table.id,
    )
