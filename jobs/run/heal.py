"""What today's rules make of rows that are held in a quarantine.

The events themselves are read from bronze again and not from the quarantine, because the judgement also needs the
clock of their reader, and the copy that counts is the first in bronze's order. A healed row is one of the copies of its
event, beside the one that silver may have and others that are healed with it: the first of them is the one that
a computation of everything would keep, so if that is a healed one, silver's goes.

A row whose time a stream still owns, that of the table or of one above it, waits: the stream might admit another copy,
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

from jobs.core.received import ORDER, PLACE
from jobs.core.table import Table
from jobs.core.verdict import bad_rows, good_rows, judged
from jobs.run.balance import read_until
from jobs.run.lake import Lake
from jobs.run.rows import rows_at, rows_now
from jobs.run.span import Span

COPY = ("_key", "_time")
"""What good copies of one event agree in."""


class Fate(StrEnum):
    """What becomes of a held row."""

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
    """Which rows of a quarantine are meant; all when nothing is said.

    Args:
        reason: Those that have this reason, perhaps among others.
        span: Those of this range of event time; of arrival, where a row has none.
        place: The one that stood there in Kafka: topic, partition, offset.
    """

    reason: str | None = None
    span: Span | None = None
    place: tuple[str, int, int] | None = None

    @property
    def is_whole(self) -> bool:
        """Tell whether all rows are meant."""
        return self == Choice()

    def holds(self) -> Column:
        """Tell whether a record is meant."""
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
    """So many rows that were held for these reasons, what becomes of them, and the reasons from now on."""

    before: tuple[str, ...]
    fate: Fate
    after: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """What rows of a quarantine become.

    Args:
        kinds: How many of each kind there are.
        moving: The place and the fate of each that moves.
        rows: Those that come to silver.
        gone: The places of rows of silver that are not the first copy any more.
        came_and_gone: How many rows come to silver, and how many go.
        held: The records of those that are held for other reasons from now on.
        touched: The range of event time in which silver changes; of arrival when only reasons do; None when nothing.
        waits_until: The moment behind the newest row that waits.
    """

    kinds: tuple[Kind, ...]
    moving: DataFrame
    rows: DataFrame
    gone: DataFrame
    came_and_gone: tuple[int, int]
    held: DataFrame
    touched: Span | None
    waits_until: datetime | None

    def count(self, *fates: Fate) -> int:
        """Return how many rows have one of some fates."""
        return sum(kind.rows for kind in self.kinds if kind.fate in fates)

    @property
    def lost(self) -> Counter[str]:
        """Count by their former first reason the records that are released."""
        return _counted((k.before, k.rows) for k in self.kinds if k.fate in MOVING)

    @property
    def gained(self) -> Counter[str]:
        """Count by their first reason the records that come for them."""
        return _counted((k.after, k.rows) for k in self.kinds if k.fate is Fate.CHANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay did, or would do.

    Args:
        table: The table's one name.
        rows: How many open rows were looked at.
        healed: Of them, how many are in silver now.
        duplicates: How many are copies of a row that counts.
        changed: How many are bad for other reasons than before.
        remain: How many are bad as before.
        wait: How many would heal, but their time is still owned by a stream.
        waits_for: The table whose stream is furthest behind, if rows wait.
        possible_from: Up to which moment events must have been read before the newest of those can heal.
        kinds: The same by reasons, before and after.
        since: Where the range begins that was touched.
        until: Where it ends.
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
    spark: SparkSession, table: Table, lake: Lake, chosen: DataFrame, closed: datetime | None
) -> Iterator[Healing]:
    """Judge rows again by today's rules; nothing is written.

    Args:
        spark: The session.
        table: A judged table.
        lake: Where.
        chosen: Records of its quarantine: identity and ``reasons``, which are NULL for one that was released already.
        closed: The moment before which every range of the table is closed; None when none is.
    """
    chosen = chosen.select(*PLACE, "_arrived_at", F.col("reasons").alias("_were")).persist()
    verdicts = judged(_events(spark, table, lake, chosen), table, in_any_order=True)
    verdicts = verdicts.persist(StorageLevel.MEMORY_AND_DISK)
    is_closed = F.lit(False) if closed is None else F.col("_time") < F.lit(closed)
    good = verdicts.where(F.col("_reasons").isNull() & is_closed)
    ranked = _ranked(spark, table, lake, good.select(*COPY, *ORDER)).persist()
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
        )
    finally:
        for each in (fates, ranked, verdicts, chosen):
            each.unpersist()


def _events(spark: SparkSession, table: Table, lake: Lake, places: DataFrame) -> DataFrame:
    """Return the events of bronze that stood in some places, as far as the table has read."""
    (source,) = table.upstream
    bronze = rows_at(spark, lake.table(source), read_until(table, source, lake))
    near = _span(places.select(F.col("_arrived_at").alias("_time")))
    found = bronze.where(near.holds("_arrived_at")) if near else bronze.limit(0)
    return found.join(places.select(*PLACE), [*PLACE], "left_semi")


def _ranked(spark: SparkSession, table: Table, lake: Lake, new: DataFrame) -> DataFrame:
    """Number the copies of each event, those that are new and the one that silver may have, in bronze's order."""
    key = F.col(table.key[0]) if len(table.key) == 1 else F.struct(*table.key)
    live = rows_now(spark, table, lake)
    span = _span(new)
    live = live.where(span.holds(str(table.event_at))) if span else live.limit(0)
    live = live.select(
        *PLACE, "_arrived_at", key.alias("_key"), F.col(str(table.event_at)).alias("_time")
    )
    events = new.select(F.col("_key").alias("_k"), F.col("_time").alias("_t")).distinct()
    is_copy = F.col("_key").eqNullSafe(F.col("_k")) & (F.col("_time") == F.col("_t"))
    rivals = live.join(events, is_copy, "left_semi")
    order = _events(spark, table, lake, rivals).select(*PLACE, "_batch")
    old = rivals.join(order, [*PLACE]).select(*COPY, *ORDER, F.lit(False).alias("_is_new"))
    both = new.withColumn("_is_new", F.lit(True)).unionByName(old)
    return both.withColumn("_nth", F.row_number().over(Window.partitionBy(*COPY).orderBy(*ORDER)))


def _fates(
    verdicts: DataFrame, chosen: DataFrame, ranked: DataFrame, is_closed: Column
) -> DataFrame:
    """Say of each row what becomes of it."""
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
    """Count the rows of each kind, and say from when until when those of some fates are; one job for both."""
    times = F.unix_micros("_time")
    kinds = fates.groupBy("_were", "_fate", "_reasons")
    counts = F.count("*").alias("rows"), F.min(times).alias("first"), F.max(times).alias("last")
    found = kinds.agg(*counts).collect()

    def reach(*of: Fate) -> Span | None:
        those = [row for row in found if row["_fate"] in of]
        if not those:
            return None
        return Span.of_micros(min(r["first"] for r in those), max(r["last"] for r in those))

    told = (
        Kind(
            before=tuple(row["_were"] or ()),
            fate=Fate(row["_fate"]),
            after=tuple(row["_reasons"] or ()),
            rows=row["rows"],
        )
        for row in found
    )
    return tuple(sorted(told, key=lambda kind: (kind.before, kind.fate, kind.after))), reach


def _span(rows: DataFrame) -> Span | None:
    """Return the shortest range with all of the times."""
    times = F.unix_micros("_time")
    first, last = rows.agg(F.min(times), F.max(times)).collect()[0]
    return None if first is None else Span.of_micros(first, last)


def _counted(found: Iterator[tuple[tuple[str, ...], int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for reasons, rows in found:
        if reasons:
            counts[reasons[0]] += rows
    return counts
