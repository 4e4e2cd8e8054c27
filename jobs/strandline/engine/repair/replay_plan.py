"""Plan a replay: judge the held rows of a quarantine by today's rules.

The events are read from bronze again and not from the quarantine, because the judgement also needs the clock of their
reader, and the copy that counts is the first in bronze's order. A healed row competes with the copy of its event that
silver may have, and with copies that heal with it. A computation of everything would keep the first of them; if that
is a healed row, silver's copy goes.

A row waits while a stream, of the table or of one above it, still owns its time: the stream might admit another copy,
or close the window without it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from strandline.core.received import ORDER, PLACE
from strandline.core.table import Judged
from strandline.core.verdict import bad_rows, good_rows, judged
from strandline.core.writer_schema import schemas_from
from strandline.engine.accounting.balance_sheet import readable_at
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.read_together import read_together
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Through
from strandline.engine.storage.read_version import rows_at
from strandline.engine.storage.schema_shelf import Shelf

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


MOVING = (Fate.HEALS, Fate.DUPLICATE, Fate.CHANGES)


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
    with schemas_from(Shelf(lake.schemas)):
        verdicts = judged(_events(spark, table, lake, chosen), table, in_any_order=True)
    verdicts = verdicts.persist(StorageLevel.MEMORY_AND_DISK)
    is_closed = F.lit(False) if closed is None else F.col("_time") < F.lit(closed)
    good = verdicts.where(F.col("_reasons").isNull() & is_closed)
    version, _ = read_together(table, table.upstream, lake)
    ranked = _ranked(spark, table, lake, good.select(*COPY, *ORDER), version).persist()
    fates = _fates(verdicts, chosen, ranked, is_closed).persist()
    try:
        places = {fate: fates.where(F.col("_fate") == fate.value).select(*PLACE) for fate in Fate}
        moving = fates.where(F.col("_fate").isin(*(fate.value for fate in MOVING)))
        gone = ranked.where("NOT _is_new AND _nth > 1").select(*PLACE)
        kinds, reach = _kinds(fates)
        came = sum(kind.rows for kind in kinds if kind.fate is Fate.HEALS)
        waiting = reach(Fate.WAITS)
        yield Healing(
            kinds=kinds,
            moving=moving.select(*PLACE, "_fate"),
            rows=good_rows(verdicts.join(places[Fate.HEALS], [*PLACE], "left_semi")),
            gone=gone,
            came_and_gone=(came, gone.count()),
            held=bad_rows(verdicts.join(places[Fate.CHANGES], [*PLACE], "left_semi"), table),
            touched=reach(Fate.HEALS, Fate.DUPLICATE) or reach(Fate.CHANGES),
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
    rivals = live.join(events, is_copy, "left_semi")
    order = _events(spark, table, lake, rivals).select(*PLACE, "_batch")
    old = rivals.join(order, [*PLACE], "left_outer").select(
        *COPY, *ORDER, F.lit(False).alias("_is_new")
    )
    both = new.withColumn("_is_new", F.lit(True)).unionByName(old)
    return both.withColumn("_nth", F.row_number().over(Window.partitionBy(*COPY).orderBy(*ORDER)))


def _fates(
    verdicts: DataFrame, chosen: DataFrame, ranked: DataFrame, is_closed: Column
) -> DataFrame:
    """Add the fate of each row."""
    fate = (
        F.when(F.col("_reasons").isNull() & ~is_closed, Fate.WAITS.value)
        .when(F.col("_reasons").isNull() & (F.col("_nth") == 1), Fate.HEALS.value)
        .when(F.col("_reasons").isNull(), Fate.DUPLICATE.value)
        .when(F.col("_reasons").eqNullSafe(F.col("_were")), Fate.REMAINS.value)
        .otherwise(Fate.CHANGES.value)
    )
    known = verdicts.select(*PLACE, "_reasons", "_time").join(
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
