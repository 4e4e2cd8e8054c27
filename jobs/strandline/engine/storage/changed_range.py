"""Find the event-time range in which two versions of a table differ, without a change feed.

A writer that replaces rows records the range in its ledger entry (jobs/strandline/engine/pipeline/write_gold.py).
Where a commit lacks it, the rows of the files that were added and removed are compared.
"""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.table import Computed, Recomputed, Upserted
from strandline.engine.storage.join_by_key import by_key
from strandline.engine.storage.ledger import entry_at
from strandline.engine.storage.log_actions import changes_rows, files_between
from strandline.engine.storage.place import Place
from strandline.engine.storage.read_version import OPEN
from strandline.engine.storage.replace_rows import changes

Reach = tuple[int, int]
"""A range of event time: its first and last microsecond, both included."""

NO_TIME = (0, -1)
"""The empty range."""


def changed_span(
    spark: SparkSession, source: Computed, path: Place, before: int, now: int
) -> Reach | None:
    """Return the range in which two versions of a table differ; None when they are equal."""
    ranges = [_range_of(path, version) for version in range(before + 1, now + 1)]
    known = [reach for reach in ranges if reach is not None]
    if len(known) == now - before:
        return hull([reach for reach in known if reach != NO_TIME])
    rows = _changed_rows(spark, path, before, now)
    return None if rows is None else reach_of(rows, source)


def _range_of(path: Place, version: int) -> Reach | None:
    """Return the range that a version changed; None if its entry does not say."""
    entry = entry_at(path, version)
    if entry is not None:
        return entry.changed
    return None if changes_rows(path, version) else NO_TIME


def hull(reaches: Sequence[Reach]) -> Reach | None:
    """Return the shortest range that contains all of the given ones; None when none is given."""
    if not reaches:
        return None
    firsts, lasts = zip(*reaches, strict=True)
    return min(firsts), max(lasts)


def reach_of(rows: DataFrame, source: Computed) -> Reach | None:
    """Return the range that rows cover which only one of two versions has; None when there is no row.

    A row whose validity ended between the versions is unchanged before that end, so it counts from its end on.
    Its start may lie months back.
    """
    begins = F.unix_micros(source.event_at)
    if source.valid_until is None:
        spans = rows.select(begins.alias("first"), begins.alias("last"))
    else:
        end = _end(source)
        same = [name for name in rows.columns if name not in _moving(source)]
        ends = rows.groupBy(*same).agg(F.array_sort(F.collect_list(end)).alias("ends"))
        first = F.when(F.size("ends") > 1, F.get("ends", F.lit(0))).otherwise(begins)
        spans = ends.select(first.alias("first"), F.array_max("ends").alias("last"))
    lowest, highest = spans.agg(F.min("first"), F.max("last")).collect()[0]
    return None if lowest is None else (lowest, highest)


def reach_of_change(rows: DataFrame, held: DataFrame, source: Computed) -> Reach | None:
    """Return the range that changes when rows replace those with the same key.

    The key joins each row to the one that it replaces, so nothing is sorted or shuffled as in ``reach_of``.
    """
    end = _end(source)
    others = [name for name in rows.columns if name not in {*source.key, *_moving(source)}]
    begins = F.unix_micros(source.event_at)
    compared = [begins.alias("_begins"), end.alias("_end"), F.struct(*others, begins).alias("_row")]
    new = rows.select(*source.key, *compared)
    old = held.select(*source.key, *compared).withColumnsRenamed(
        {name: f"{name}_before" for name in ("_begins", "_end", "_row")}
    )
    both = by_key(new, old, source.key, "left")
    since = F.least("_begins", F.coalesce("_begins_before", "_begins"))
    until = F.coalesce("_end_before", "_end")
    is_same = F.col("_row").eqNullSafe(F.col("_row_before"))
    first = F.when(is_same, F.least("_end", until)).otherwise(since)
    lowest, highest = both.agg(F.min(first), F.max(F.greatest("_end", until))).collect()[0]
    return None if lowest is None else (lowest, highest)


def _moving(source: Computed) -> set[str | None]:
    """Return the columns that change when a row's validity ends: its end, and the column of its partition."""
    folder = source.window_from if isinstance(source, Upserted | Recomputed) else None
    return {source.valid_until, folder} - {source.event_at}


def _end(source: Computed) -> Column:
    """Return the end of the row's validity, in microseconds."""
    if source.valid_until is None:
        return F.unix_micros(source.event_at)
    return F.coalesce(F.unix_micros(source.valid_until), F.lit(OPEN))


def _changed_rows(spark: SparkSession, path: Place, before: int, now: int) -> DataFrame | None:
    """Return the rows that only one of two versions has; None when no file was added or removed."""
    came, went = files_between(path, before + 1, now)
    # With basePath, Spark reads the partition columns from the names of the folders.
    read = partial(spark.read.option("basePath", str(path)).parquet)
    new = read(*sorted(came)) if came else None
    old = read(*sorted(went)) if went else None
    if new is None or old is None:
        return new if old is None else old
    return changes(new, old).drop("_more")
