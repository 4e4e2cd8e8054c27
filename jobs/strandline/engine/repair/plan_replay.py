"""Plan a replay: judge the held rows of a quarantine by today's rules.

The events are read from bronze again and not from the quarantine, because the judgement also needs the clock of their
reader, and the copy that counts is the first in bronze's order. A healed row competes with the copy of its event that
silver may have, and with copies that heal with it. A computation of everything would keep the first of them; if that
is a healed row, silver's copy goes.

A row waits while a stream, of the table or of one above it, still owns its time: the stream might admit another copy,
or close the window without it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from strandline.core.routes import schemas_from
from strandline.core.table import Judged
from strandline.core.topic import ITEM, ORDER, PLACE, SKIPPED
from strandline.core.verdict import (
    bad_items,
    bad_rows,
    good_rows,
    judged,
    judged_items,
    without_skipped,
)
from strandline.engine.accounting.balance_sheet import readable_at
from strandline.engine.accounting.batch_check import held_by_reason
from strandline.engine.accounting.held_records import has_items, records
from strandline.engine.flow.batch.batch_accounting import skip_of, skipped_among
from strandline.engine.flow.batch.event_joins import joining
from strandline.engine.lake.commit.delta_commit import cut, rows_at
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Through
from strandline.engine.lake.shelves import Shelf
from strandline.engine.repair.closed_range import (
    Span,
    read_together,
)

Keep = Callable[[DataFrame], DataFrame]
"""Keeps rows until the plan is not needed any more, and returns them under a plan of their own.

Judged rows have a long one, and all other frames of a replay come from them: without it the analysis of plans was most of a replay.
"""

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
class Kind:
    """A number of rows with the same reasons before, the same fate and the same reasons after; of records, or of items."""

    before: tuple[str, ...]
    fate: Fate
    after: tuple[str, ...]
    rows: int
    is_item: bool = False


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
        held: The records of rows that are held for other reasons from now on, and the bad items of records that come.
        touched: The range of event time in which silver changes; of arrival time when only reasons change; None when
            nothing changes.
        waits_until: The moment just after the newest row that waits.
        through: For how many of the records the table's function has no row, and how many rows more than one.
        version: The version of silver that was compared.
        born: The number of bad items of records that come, by first reason.
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
    born: Counter[str] = field(default_factory=Counter)

    def count(self, *fates: Fate) -> int:
        """Return how many rows have one of the fates."""
        return sum(kind.rows for kind in self.kinds if kind.fate in fates)

    @property
    def left_nowhere(self) -> int:
        """Return how many items that were released already would stay so, because their record is not believed any more."""
        return sum(
            kind.rows
            for kind in self.kinds
            if kind.is_item and not kind.before and kind.fate is Fate.REMAINS
        )

    @property
    def lost(self) -> Counter[str]:
        """Count the released records by their former first reason."""
        return _counted((k.before, k.rows) for k in self.kinds if k.fate in MOVING)

    @property
    def gained(self) -> Counter[str]:
        """Count the records that come to the quarantine by their first reason."""
        changed = _counted((k.after, k.rows) for k in self.kinds if k.fate is Fate.CHANGES)
        return changed + self.born

    @property
    def lost_items(self) -> int:
        """Return how many of the released records are items of believed ones."""
        moving = (k for k in self.kinds if k.is_item and k.fate in MOVING)
        return sum(kind.rows for kind in moving if kind.before)

    @property
    def gained_items(self) -> int:
        """Return how many of those that come are."""
        changing = (k for k in self.kinds if k.is_item and k.fate is Fate.CHANGES)
        return sum(kind.rows for kind in changing) + self.born.total()


@contextmanager
def healing(  # noqa: PLR0913, PLR0917  # where, what, what is closed, and what was written before
    spark: SparkSession,
    table: Judged,
    lake: Lake,
    chosen: DataFrame,
    closed: datetime | None,
    written: DataFrame | None = None,
) -> Iterator[Healing]:
    """Judge rows again by today's rules; nothing is written.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        chosen: Records of its quarantine: identity and ``reasons``, which are NULL for a record that is released.
        closed: The moment before which every range of the table is closed; None when none is.
        written: Items that the quarantine holds, of which a replay that was killed may have brought some.
    """
    with ExitStack() as kept:

        def keep(rows: DataFrame) -> DataFrame:
            kept.callback(rows.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
            return cut(rows)

        yield _planned(spark, table, lake, chosen, closed, written, keep)


def _planned(  # noqa: PLR0913, PLR0917  # the same, and what keeps rows; each name is a frame of the plan
    spark: SparkSession,
    table: Judged,
    lake: Lake,
    chosen: DataFrame,
    closed: datetime | None,
    written: DataFrame | None,
    keep: Keep,
) -> Healing:
    names = (*PLACE, "_arrived_at", F.col("reasons").alias("_were"))
    chosen, items = apart(chosen)
    chosen = places = keep(chosen.select(*names))
    if items is not None:
        items = keep(items.select(*names, ITEM, "event_at"))
        places = chosen.unionByName(items.select(*chosen.columns)).dropDuplicates([*PLACE])
    with schemas_from(Shelf(lake.schemas)), joining(table, lake):
        every = judged(
            _events(spark, table, lake, places), table, in_any_order=True, keeps_skipped=True
        )
    every = keep(every)
    verdicts = every if items is None else _of_places(every, chosen)
    is_closed = F.lit(False) if closed is None else F.col("_time") < F.lit(closed)
    good = without_skipped(verdicts, table).where(F.col("_reasons").isNull() & is_closed)
    version, _ = read_together(table, table.upstream, lake)
    ranked = keep(_ranked(spark, table, lake, good.select(*COPY, *ORDER), version))
    fates = keep(_fates(verdicts, chosen, ranked, is_closed, skip_of(table)))
    gone = ranked.where("NOT _is_new AND _nth > 1").select(*PLACE)
    live = rows_at(spark, lake.table(table), version)
    known = _known_items(spark, table, lake)
    of_items: _OfItems | None = None
    if known is not None:
        judgements = without_skipped(every, table)
        of_items = _OfItems(table, judgements, known, items, live, gone, is_closed, keep)
    kinds, reach = _kinds(fates.unionByName(of_items.fates) if of_items else fates)
    came = sum(kind.rows for kind in kinds if kind.fate is Fate.HEALS and not kind.is_item)
    went = gone.count()
    healed = without_skipped(_of_places(verdicts, _with(fates, Fate.HEALS)), table)
    rows = good_rows(healed, table)
    held = bad_rows(_of_places(verdicts, _with(fates, Fate.CHANGES)), table)
    born: Counter[str] = Counter()
    if table.holds_items:
        coming = bad_items(healed, table)
        if written is not None:
            coming = coming.join(written, [*PLACE_OF_ITEM, "reasons"], "left_anti")
        born, held = held_by_reason(coming), held.unionByName(coming)
    moving = fates.where(_moves())
    if of_items:
        rows = of_items.rows_with(rows)
        moving = moving.unionByName(of_items.fates.where(_moves()))
        held = of_items.held_with(held)
    come_and_go = came, went
    if table.rows:
        come_and_go = rows.count(), live.join(gone, [*PLACE], "left_semi").count()
    waiting = reach(Fate.WAITS)
    return Healing(
        kinds=kinds,
        moving=moving.select(*PLACE_OF_ITEM, "_fate"),
        rows=rows,
        gone=gone,
        came_and_gone=come_and_go,
        records=came - went,
        skipped=skipped_among(fates, table),
        held=held,
        touched=reach(Fate.HEALS, Fate.DUPLICATE) or reach(Fate.CHANGES, Fate.SKIPPED),
        waits_until=waiting.until if waiting else None,
        through=_through(chosen, verdicts),
        version=version,
        born=born,
    )


def _of_places(rows: DataFrame, places: DataFrame) -> DataFrame:
    return rows.join(places.select(*PLACE), [*PLACE], "left_semi")


def _with(fates: DataFrame, fate: Fate) -> DataFrame:
    return fates.where(F.col("_fate") == fate.value)


def _moves() -> Column:
    return F.col("_fate").isin(*(fate.value for fate in MOVING))


def _known_items(spark: SparkSession, table: Judged, lake: Lake) -> DataFrame | None:
    """Return the items that the quarantine holds; None where it can have none."""
    if not table.rows or not has_items(lake.quarantine(table)):
        return None
    return apart(records(spark, table, lake))[1]


class _OfItems:
    """What becomes of held items: of those that were chosen, and of those whose record goes."""

    def __init__(  # noqa: PLR0913, PLR0917  # which items, and what is known of their records
        self,
        table: Judged,
        verdicts: DataFrame,
        known: DataFrame,
        items: DataFrame | None,
        live: DataFrame,
        gone: DataFrame,
        is_closed: Column,
        keep: Keep,
    ) -> None:
        """Find it."""
        self._table = table
        self._verdicts = verdicts
        names = (*PLACE_OF_ITEM, "_were", "event_at")
        going = known.withColumn("_were", F.col("reasons")).join(gone, [*PLACE], "left_semi")
        chosen = going.select(*names)
        if items is not None:
            others = chosen.join(items, [*PLACE_OF_ITEM], "left_anti")
            chosen = items.select(*names).unionByName(others)
        words = (Fate.DUPLICATE, Fate.HEALS, Fate.WAITS, Fate.REMAINS, Fate.CHANGES)
        found = _fates_of(
            verdicts,
            chosen,
            table,
            live=live,
            gone=gone,
            is_closed=is_closed,
            words=[each.value for each in words],
        )
        none = F.lit(None)
        found = found.withColumn(SKIPPED, none.cast("string")).withColumn("_nth", none.cast("int"))
        self.fates = keep(found)

    def rows_with(self, rows: DataFrame) -> DataFrame:
        """Return rows that come with those of items that heal."""
        items = judged_items(self._verdicts, self._table).drop("_reasons")
        heals = _with(self.fates, Fate.HEALS).select(*PLACE_OF_ITEM)
        return rows.unionByName(items.join(heals, [*PLACE_OF_ITEM], "left_semi"))

    def held_with(self, held: DataFrame) -> DataFrame:
        """Return what comes to the quarantine with the items that are bad for other reasons than before."""
        if not self._table.holds_items:
            return held
        change = _with(self.fates, Fate.CHANGES).select(*PLACE_OF_ITEM)
        items = bad_items(self._verdicts, self._table)
        return held.unionByName(items.join(change, [*PLACE_OF_ITEM], "left_semi"))


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
    ranked_too = known.join(new, [*PLACE], "left_outer").withColumn("_fate", fate)
    return ranked_too.withColumn(ITEM, F.lit(None).cast("int"))


def _kinds(fates: DataFrame) -> tuple[tuple[Kind, ...], Callable[..., Span | None]]:
    """Count the rows of each kind, and return the time range by fate; one job for both."""
    times = F.unix_micros("_time")
    kinds = fates.groupBy("_were", "_fate", "_reasons", F.col(ITEM).isNotNull().alias("_of"))
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
            is_item=row["_of"],
        )
        for row in groups
    )
    return tuple(sorted(counted, key=_in_order)), reach


def _in_order(kind: Kind) -> tuple[tuple[str, ...], Fate, tuple[str, ...], bool]:
    return kind.before, kind.fate, kind.after, kind.is_item


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


# Items that are held by themselves, where their records are believed: what a repair of their table makes of them.
#
# Each believed record has a row in the table, and what its rows say of it holds for its held items: that it was in a range, that
# it goes because an earlier copy came, that retention deleted it. So no register of such records is needed beside the table.


PLACE_OF_ITEM = (*PLACE, ITEM)


def apart(known: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Return the records among those of a quarantine, and the items; None where it can have none."""
    if ITEM not in known.columns:
        return known, None
    return known.where(F.col(ITEM).isNull()), known.where(F.col(ITEM).isNotNull())


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsMoved:
    """Items that leave the quarantine and items that come to it, because their range is computed again.

    Args:
        released: Those that leave.
        held: Those that come.
        lost: The number of the ones that leave, by first reason.
        gained: The number of the ones that come.
    """

    released: DataFrame
    held: DataFrame
    lost: Counter[str]
    gained: Counter[str]


def moved(
    records: DataFrame, known: DataFrame | None, live: DataFrame, table: Judged
) -> ItemsMoved | None:
    """Compare the items that are held of the believed records of a range with those that are to be.

    Args:
        records: The records of the range, judged by today's rules, without copies.
        known: The items that the quarantine holds; None where it can have none.
        live: The table's rows of the range.
        table: The table.

    Returns:
        What changes; None where the table holds no item by itself, and never did.
    """
    if known is None and not table.holds_items:
        return None
    now = bad_items(records, table) if table.holds_items else None
    if now is None:
        none = bad_rows(records, table).limit(0)
        now = none.withColumn(ITEM, F.lit(None).cast("int"))
    if known is None:
        known = now.limit(0).withColumn("_state", F.lit(""))
    # Also those of records that are no rows yet: a repair that was killed has held them before it brought these.
    places = live.select(*PLACE).union(records.select(*PLACE)).distinct()
    was = known.join(places, [*PLACE], "left_semi")
    same = [*PLACE_OF_ITEM, "reasons"]
    released, held = was.join(now, same, "left_anti"), now.join(was, same, "left_anti")
    return ItemsMoved(
        released=released,
        held=held,
        lost=held_by_reason(released),
        gained=held_by_reason(held),
    )


def _fates_of(  # noqa: PLR0913  # which items, what is known of their records, and the words for what becomes of them
    verdicts: DataFrame,
    chosen: DataFrame,
    table: Judged,
    *,
    live: DataFrame,
    gone: DataFrame,
    is_closed: Column,
    words: Sequence[str],
) -> DataFrame:
    """Return held items with their verdict of today and what becomes of them.

    Of a record that is not believed now, or has no row in the table any more, none is moved.

    Args:
        verdicts: Their records, judged by today's rules.
        chosen: The items: their place, ``_were`` and ``event_at``.
        table: The table.
        live: The table's rows.
        gone: The places of records that go, because an earlier copy comes.
        is_closed: Whether a record's time is closed.
        words: What is said of an item that is of such a record, comes to the table, waits, is bad as before, or otherwise.
    """
    duplicate, heals, waits, remains, changes = words
    believed = verdicts.where(F.col("_reasons").isNull())
    times = believed.select(*PLACE, "_time", is_closed.alias("_closed"))
    items = judged_items(believed, table).select(
        *PLACE_OF_ITEM, "_reasons", F.lit(True).alias("_known")
    )
    left = live.select(*PLACE).distinct().withColumn("_live", F.lit(True))
    goes = gone.select(*PLACE).distinct().withColumn("_gone", F.lit(True))
    found = chosen.join(items, [*PLACE_OF_ITEM], "left").join(times, [*PLACE], "left")
    found = found.join(left, [*PLACE], "left").join(goes, [*PLACE], "left")
    fate = (
        F.when(F.col("_gone").isNotNull(), duplicate)
        .when(F.col("_live").isNull() | F.col("_known").isNull(), remains)
        .when(F.col("_reasons").isNull() & ~F.col("_closed"), waits)
        .when(F.col("_reasons").isNull(), heals)
        .when(F.col("_reasons").eqNullSafe(F.col("_were")), remains)
        .otherwise(changes)
    )
    at = F.coalesce("_time", "event_at").alias("_time")
    return found.select(*PLACE_OF_ITEM, "_were", "_reasons", at, fate.alias("_fate"))
