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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.formats.writer_schema import schemas_from
from strandline.core.items import SKIPPED
from strandline.core.table import Judged, Table
from strandline.core.topic import ORDER, PLACE
from strandline.core.verdict import bad_rows, good_rows, judged, without_skipped
from strandline.engine.accounting.balance_sheet import readable_at
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.batch_accounting import skip_of, skipped_among
from strandline.engine.flow.batch.static_join import joining
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.commit.replace_rows import Exchange, swap
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import IMPORT, Entry, Through, last_entry, latest_version
from strandline.engine.lake.read.open_table import live_rows
from strandline.engine.lake.read.static_versions import refuse_untaken
from strandline.engine.lake.shelf.shelves import Shelf
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
    append_entry,
    hold,
    open_records,
    records,
    resolve,
)
from strandline.engine.repair.backfill import ROLE, leave_behind
from strandline.engine.repair.closed_range import (
    Span,
    read_together,
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
from strandline.engine.runtime.meter import Meter

# Plan a replay: judge the held rows of a quarantine by today's rules.
#
# The events are read from bronze again and not from the quarantine, because the judgement also needs the clock of their
# reader, and the copy that counts is the first in bronze's order. A healed row competes with the copy of its event that
# silver may have, and with copies that heal with it. A computation of everything would keep the first of them; if that
# is a healed row, silver's copy goes.
#
# A row waits while a stream, of the table or of one above it, still owns its time: the stream might admit another copy,
# or close the window without it.


COPY = ("_key", "_time")
"""The columns in which good copies of one event agree."""


class Fate(StrEnum):
    """The result of a replay for one held row."""

    HEALS = "heals"
    DUPLICATE = "duplicate"
    WAITS = "waits"
    REMAINS = "remains"
    """Bad for the same reasons as before."""
    CHANGES = "changes"
    """Bad for other reasons than before."""
    SKIPPED = "skipped"
    """The table passes it over by a rule."""


MOVING = (Fate.HEALS, Fate.DUPLICATE, Fate.CHANGES, Fate.SKIPPED)


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
class Kind:
    """A number of rows with the same reasons before, the same fate and the same reasons after."""

    before: tuple[str, ...]
    fate: Fate
    after: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """The plan of a replay.

    Args:
        kinds: The number of rows of each kind.
        moving: The place and the fate of each row that moves.
        rows: The rows that come to silver.
        gone: The places of silver's rows that are no longer the first copy.
        came_and_gone: How many rows come to silver, and how many go.
        records: By how many the records of silver's rows become more or less.
        skipped: The number of records that the table passes over, by the name of the rule.
        held: The records of rows that are held for other reasons from now on.
        touched: The range of event time in which silver changes; of arrival time when only reasons change; None when
            nothing changes.
        waits_until: The moment just after the newest row that waits.
        through: For how many of the records the table's function has no row, and how many rows more than one.
        version: The version of silver that was compared.
    """

    kinds: tuple[Kind, ...]
    moving: DataFrame
    rows: DataFrame
    gone: DataFrame
    came_and_gone: tuple[int, int]
    records: int
    skipped: Mapping[str, int]
    held: DataFrame
    touched: Span | None
    waits_until: datetime | None
    through: Through
    version: int

    def count(self, *fates: Fate) -> int:
        """Return how many rows have one of the fates."""
        return sum(kind.rows for kind in self.kinds if kind.fate in fates)

    @property
    def lost(self) -> Counter[str]:
        """Count the released records by their former first reason."""
        return _counted((k.before, k.rows) for k in self.kinds if k.fate in MOVING)

    @property
    def gained(self) -> Counter[str]:
        """Count the records that replace them by their first reason."""
        return _counted((k.after, k.rows) for k in self.kinds if k.fate is Fate.CHANGES)


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


@contextmanager
def healing(
    spark: SparkSession, table: Judged, lake: Lake, chosen: DataFrame, closed: datetime | None
) -> Iterator[Healing]:
    """Judge rows again by today's rules; nothing is written.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        chosen: Records of its quarantine: identity and ``reasons``, which are NULL for a record that is released.
        closed: The moment before which every range of the table is closed; None when none is.
    """
    chosen = chosen.select(*PLACE, "_arrived_at", F.col("reasons").alias("_were")).persist()
    with schemas_from(Shelf(lake.schemas)), joining(table, lake):
        verdicts = judged(
            _events(spark, table, lake, chosen), table, in_any_order=True, keeps_skipped=True
        )
    verdicts = verdicts.persist(StorageLevel.MEMORY_AND_DISK)
    is_closed = F.lit(False) if closed is None else F.col("_time") < F.lit(closed)
    good = without_skipped(verdicts, table).where(F.col("_reasons").isNull() & is_closed)
    version, _ = read_together(table, table.upstream, lake)
    ranked = _ranked(spark, table, lake, good.select(*COPY, *ORDER), version).persist()
    fates = _fates(verdicts, chosen, ranked, is_closed, skip_of(table)).persist()
    try:
        places = {fate: fates.where(F.col("_fate") == fate.value).select(*PLACE) for fate in Fate}
        moving = fates.where(F.col("_fate").isin(*(fate.value for fate in MOVING)))
        gone = ranked.where("NOT _is_new AND _nth > 1").select(*PLACE)
        kinds, reach = _kinds(fates)
        came = sum(kind.rows for kind in kinds if kind.fate is Fate.HEALS)
        went = gone.count()
        healed = verdicts.join(places[Fate.HEALS], [*PLACE], "left_semi")
        rows = good_rows(without_skipped(healed, table), table)
        come_and_go = came, went
        if table.rows:
            live = rows_at(spark, lake.table(table), version)
            come_and_go = rows.count(), live.join(gone, [*PLACE], "left_semi").count()
        waiting = reach(Fate.WAITS)
        yield Healing(
            kinds=kinds,
            moving=moving.select(*PLACE, "_fate"),
            rows=rows,
            gone=gone,
            came_and_gone=come_and_go,
            records=came - went,
            skipped=skipped_among(fates, table),
            held=bad_rows(verdicts.join(places[Fate.CHANGES], [*PLACE], "left_semi"), table),
            touched=reach(Fate.HEALS, Fate.DUPLICATE) or reach(Fate.CHANGES, Fate.SKIPPED),
            waits_until=waiting.until if waiting else None,
            through=_through(chosen, verdicts),
            version=version,
        )
    finally:
        for each in (fates, ranked, verdicts, chosen):
            each.unpersist()


def _through(chosen: DataFrame, verdicts: DataFrame) -> Through:
    """Count how many rows the table's function has for each record."""
    rows = verdicts.groupBy(*PLACE).agg(F.count(F.lit(1)).alias("_rows"))
    of_record = chosen.select(*PLACE).join(rows, [*PLACE], "left_outer")
    found = of_record.agg(F.count_if(F.col("_rows").isNull()), F.sum(F.col("_rows") - 1)).collect()[
        0
    ]
    return Through(lost=found[0], made=found[1] or 0)


def _events(spark: SparkSession, table: Judged, lake: Lake, places: DataFrame) -> DataFrame:
    """Return the events of bronze at some places of Kafka, as far as the table has read."""
    (source,) = table.upstream
    bronze = rows_at(spark, lake.table(source), readable_at(table, source, lake))
    near = _span(places.select(F.col("_arrived_at").alias("_time")))
    arrived = bronze.where(near.holds("_arrived_at")) if near else bronze.limit(0)
    return arrived.join(places.select(*PLACE), [*PLACE], "left_semi")


def _ranked(
    spark: SparkSession, table: Judged, lake: Lake, new: DataFrame, version: int
) -> DataFrame:
    """Number the copies of each event in bronze's order: the new ones, and the one that silver may have.

    A row whose record retention deleted has no number there any more. It is the first, because it was: left out, a second
    copy would come beside it.
    """
    key = F.col(table.key[0]) if len(table.key) == 1 else F.struct(*table.key)
    live = rows_at(spark, lake.table(table), version)
    span = _span(new)
    live = live.where(span.holds(table.event_at)) if span else live.limit(0)
    live = live.select(
        *PLACE, "_arrived_at", key.alias("_key"), F.col(table.event_at).alias("_time")
    )
    events = new.select(F.col("_key").alias("_k"), F.col("_time").alias("_t")).distinct()
    is_copy = F.col("_key").eqNullSafe(F.col("_k")) & (F.col("_time") == F.col("_t"))
    if table.rows:  # its record, not each of its rows
        live = live.dropDuplicates([*PLACE])
    rivals = live.join(events, is_copy, "left_semi")
    order = _events(spark, table, lake, rivals).select(*PLACE, "_batch")
    old = rivals.join(order, [*PLACE], "left_outer").select(
        *COPY, *ORDER, F.lit(False).alias("_is_new")
    )
    both = new.withColumn("_is_new", F.lit(True)).unionByName(old)
    return both.withColumn("_nth", F.row_number().over(Window.partitionBy(*COPY).orderBy(*ORDER)))


def _fates(
    verdicts: DataFrame, chosen: DataFrame, ranked: DataFrame, is_closed: Column, skip: Column
) -> DataFrame:
    """Add the fate of each row."""
    fate = (
        F.when(skip.isNotNull(), Fate.SKIPPED.value)
        .when(F.col("_reasons").isNull() & ~is_closed, Fate.WAITS.value)
        .when(F.col("_reasons").isNull() & (F.col("_nth") == 1), Fate.HEALS.value)
        .when(F.col("_reasons").isNull(), Fate.DUPLICATE.value)
        .when(F.col("_reasons").eqNullSafe(F.col("_were")), Fate.REMAINS.value)
        .otherwise(Fate.CHANGES.value)
    )
    known = verdicts.select(*PLACE, "_reasons", "_time", skip.alias(SKIPPED)).join(
        chosen.select(*PLACE, "_were"), [*PLACE]
    )
    new = ranked.where("_is_new").select(*PLACE, "_nth")
    return known.join(new, [*PLACE], "left_outer").withColumn("_fate", fate)


def _kinds(fates: DataFrame) -> tuple[tuple[Kind, ...], Callable[..., Span | None]]:
    """Count the rows of each kind, and return the time range by fate; one job for both."""
    times = F.unix_micros("_time")
    kinds = fates.groupBy("_were", "_fate", "_reasons")
    counts = F.count("*").alias("rows"), F.min(times).alias("first"), F.max(times).alias("last")
    groups = kinds.agg(*counts).collect()

    def reach(*fates: Fate) -> Span | None:
        rows = [row for row in groups if row["_fate"] in fates]
        if not rows:
            return None
        return Span.of_micros(min(r["first"] for r in rows), max(r["last"] for r in rows))

    counted = (
        Kind(
            before=tuple(row["_were"] or ()),
            fate=Fate(row["_fate"]),
            after=tuple(row["_reasons"] or ()),
            rows=row["rows"],
        )
        for row in groups
    )
    return tuple(sorted(counted, key=lambda kind: (kind.before, kind.fate, kind.after))), reach


def _span(rows: DataFrame) -> Span | None:
    """Return the shortest range that contains all of the times."""
    times = F.unix_micros("_time")
    first, last = rows.agg(F.min(times), F.max(times)).collect()[0]
    return None if first is None else Span.of_micros(first, last)


def _counted(kinds: Iterator[tuple[tuple[str, ...], int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for reasons, rows in kinds:
        if reasons:
            counts[reasons[0]] += rows
    return counts


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
    _release(work, healed.moving, replace(begun, quarantined=released))
    return _bring(work, healed, begun, released)


def _release(work: Work, moving: DataFrame, entry: Entry) -> None:
    status = F.col("_fate")
    became = F.when(status == F.lit(Fate.HEALS.value), STATUS[Fate.HEALS].value)
    for fate in (Fate.DUPLICATE, Fate.CHANGES, Fate.SKIPPED):
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
    spark, table, lake = work.spark, work.table, work.lake
    if healed.gained:
        hold(spark, table, lake, healed.held, replace(begun, quarantined=dict(healed.gained)))
    held = Counter(released)
    held.update(healed.gained)
    came, gone = healed.came_and_gone
    remaining = {why: count for why, count in held.items() if count}
    begun = replace(begun, skipped=dict(healed.skipped))
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
    mark = replace(
        new_entry.mark_of_range(
            table, FOLLOWED, done.stream, name, (str(done.since), str(done.until))
        ),
        versions={name: (generation(quarantine), latest_version(quarantine))},
    )
    delta_commit.Commit(spark, lake.resolutions(table)).commit(mark.encoded())
