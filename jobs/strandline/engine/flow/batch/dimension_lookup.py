"""Join a table's rows to a dimension as of their event time, and repeat the join where the dimension changed later.

Each ledger entry records the version of the dimension at which its rows were looked up. Rows in the time range that
changed since are looked up again, and the rows that differ are replaced in a commit that streams skip.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.model import steps
from strandline.core.table import Computed, Dimension
from strandline.engine.flow import new_entry
from strandline.engine.gates.gate_files import behind_source
from strandline.engine.lake import shelves
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.delta_commit import OPEN, by_key, together
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND, FileIndex
from strandline.engine.lake.commit.replace_rows import (
    NO_TIME,
    TRIES,
    Exchange,
    Reach,
    came_and_gone,
    changed_span,
    changes,
    swap,
)
from strandline.engine.lake.completeness import horizon_us
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.ledger import LOOKED_AGAIN, Entry, between, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import Sums, follow, snapshot
from strandline.engine.runtime.meter import Meter

# Score a table's rows by the versions of its model that hold at their event time.
#
# The terms are read again for every batch, so a promotion changes a running stream at its next batch, without a restart.
# Every batch that has an event of a new term reads that term: a term begins later than any event that a batch which
# began before its promotion can have (jobs/strandline/engine/learning/promote_model.py).


def scored(table: Computed, lake: Lake, rows: DataFrame) -> DataFrame:
    """Add the columns of the model that scores a table; as they are, the rows of a table that none scores."""
    if table.scored_by is None:
        return rows
    return _added(rows, steps(shelves.in_force(lake, table.scored_by), table.event_at))


def unscored(table: Computed, rows: DataFrame) -> DataFrame:
    """Add the same columns without a value."""
    return rows if table.scored_by is None else _added(rows, steps((), table.event_at))


def _added(rows: DataFrame, columns: list[list[str]]) -> DataFrame:
    for step in columns:
        rows = rows.selectExpr("*", *step)
    return rows


@contextmanager
def beside(  # noqa: PLR0913, PLR0917  # which rows of what, how many, and where to look
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    batch: DataFrame,
    stock: FileIndex | None,
    count: int = OPEN,
) -> Iterator[tuple[DataFrame, dict[str, int]]]:
    """Add the dimension's columns to the rows of a batch, which are cached, because their time range is queried first.

    That query costs a job. It saves reading intervals that ended before the range, whose number only grows. ``count`` is the most
    rows that they can have.
    """
    if table.dimension is None:
        yield scored(table, lake, batch), {}
        return
    cached = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        at = F.unix_micros(table.event_at)
        first, last = together(cached, count).agg(F.min(at), F.max(at)).collect()[0]
        reach = NO_TIME if first is None else (first, last)
        yield adorned(spark, table, lake, cached, stock, reach)
    finally:
        cached.unpersist()


def adorned(  # noqa: PLR0913, PLR0917  # which rows of what, and where to look
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    rows: DataFrame,
    stock: FileIndex | None = None,
    reach: Reach = (-OPEN, OPEN),
) -> tuple[DataFrame, dict[str, int]]:
    """Add the dimension's columns to rows whose event times are within a reach; return the dimension's version too."""
    wanted = table.dimension
    if wanted is None:
        return scored(table, lake, rows), {}
    source = wanted.source
    if not lake.exists(source):
        return unknown(table, rows), {source.id: -1}
    version = latest_version(lake.table(source))
    intervals = (stock or FileIndex.of(spark, source, lake)).rows(version, *reach)
    return _looked_up(table, wanted, rows, intervals), {source.id: version}


def unknown(table: Computed, rows: DataFrame) -> DataFrame:
    """Add the columns of the dimension, and those of the model that scores the table, as NULL."""
    names = table.dimension.columns if table.dimension else ()
    return unscored(table, rows).withColumns({name: F.lit(None).cast("string") for name in names})


@dataclass(slots=True)
class Again:
    """Repeats the look-up of rows whose dimension changed, for the life of a run."""

    spark: SparkSession
    table: Computed
    lake: Lake
    _sums: Sums = field(init=False)
    _own: FileIndex = field(init=False)
    _dimensions: dict[Computed, FileIndex] = field(init=False)

    def __post_init__(self) -> None:
        """Follow the table's own ledger, which backfills write to as well."""
        self._sums = snapshot(self.lake.table(self.table)).sums
        self._own = FileIndex.of(self.spark, self.table, self.lake)
        wanted = self.table.dimension
        sources = [wanted.source] if wanted else []
        self._dimensions = {each: FileIndex.of(self.spark, each, self.lake) for each in sources}

    def look(self) -> Entry | None:
        """Replace the rows whose dimension changed since the last look-up; None if nothing changed.

        Behind a shut gate of a source it does nothing.

        This would undo a backfill's commit between its read and its own commit, so then it tries again; only the last
        try holds the table's turn throughout, and all other writers wait for it.
        """
        wanted, path = self.table.dimension, self.lake.table(self.table)
        if wanted is None or not self.lake.exists(wanted.source) or not is_table(path):
            return None
        if behind_source(self.table, self.lake):
            return None
        dimension = self.lake.table(wanted.source)
        for nth in range(TRIES):
            with turn(self.spark, path) if nth == TRIES - 1 else nullcontext():
                seen = latest_version(path)
                before, now = self._looked_until(), latest_version(dimension)
                if before == now:
                    return None
                entry = self._replace(wanted, before, now, seen)
                if entry is not None:
                    return entry
        return None

    def _looked_until(self) -> int:
        follow(self.lake.table(self.table), self._sums)
        return self._sums.right_until

    def _span(self, source: Computed, before: int, now: int) -> Reach | None:
        """Return the time range in which the dimension changed between two versions; everything if unknown."""
        path = self.lake.table(source)
        is_new = before < 0 or before > now  # never looked up, or the dimension was recreated
        if is_new or any(entry.replaced for entry in between(path, before + 1, now)):
            return self._kept(source, (-OPEN, OPEN))
        return self._kept(source, changed_span(self.spark, source, path, before, now))

    def _kept(self, source: Computed, span: Reach | None) -> Reach | None:
        """Return the part of a range of which retention has deleted nothing in the dimension; older rows stay as they are."""
        first = horizon_us(self.lake.table(source))
        if span is None or first is None or span[0] >= first:
            return span
        return (first, span[1]) if first <= span[1] else None

    def _replace(self, wanted: Dimension, before: int, now: int, seen: int) -> Entry | None:
        """Replace rows on top of a version of the table; None if another writer has committed since."""
        meter = Meter(self.spark)
        path, key = self.lake.table(self.table), list(self.table.key)
        source = wanted.source
        span = self._span(source, before, now)
        reach = span or NO_TIME
        rows = self._in_range(self._own.rows(seen, *reach), span)
        intervals = self._dimensions[source].rows(now, *reach)
        plain = rows.drop(*wanted.columns)
        new = _looked_up(self.table, wanted, plain, intervals).select(*rows.columns)
        changed = changes(new, rows).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            came, gone = came_and_gone(changed)
            between = (_text(span[0]), _text(span[1])) if span else ("", "")
            begun = new_entry.repair(self.table, LOOKED_AGAIN, LOOKED_AGAIN, source.id, between)
            begun = replace(begun, looked={source.id: now})
            entry = begun.exchanged(came=came, gone=gone, held={}, is_judged=False).closed(meter)
            if not came and not gone:
                with turn(self.spark, path):
                    if latest_version(path) != seen:
                        return None
                    delta_commit.Commit(self.spark, path).commit(entry.encoded())
                    return entry
            keys = changed.select(*key).distinct()
            exchange = Exchange(
                at=self.table.event_at,
                reach=reach,
                goes=lambda held: by_key(self._in_range(held, span), keys, key, "left_semi"),
                stays=lambda held: by_key(held, keys, key, "left_anti"),
                come=changed.where("_more > 0").drop("_more"),
                coming=came,
            )
            among = partial(self._own.files, first=reach[0], last=reach[1])
            is_done = swap(self.spark, path, exchange, entry.encoded(), among=among, seen=seen)
            return entry if is_done else None
        finally:
            changed.unpersist()

    def _in_range(self, rows: DataFrame, span: Reach | None) -> DataFrame:
        """Return the rows within a time range, by a condition that skips files outside of it."""
        if span is None:
            return rows.limit(0)
        moment, (first, last) = F.col(self.table.event_at), span
        from_first = (
            rows if first <= -OPEN else rows.where(moment >= F.timestamp_micros(F.lit(first)))
        )
        return (
            from_first
            if last >= OPEN
            else from_first.where(moment <= F.timestamp_micros(F.lit(last)))
        )


def _text(micros: int) -> str:
    return "open" if abs(micros) >= OPEN else (EPOCH + micros * MICROSECOND).isoformat()


def _looked_up(
    table: Computed, wanted: Dimension, rows: DataFrame, intervals: DataFrame
) -> DataFrame:
    return wanted.join(rows, intervals, table.event_at, wanted.columns)
