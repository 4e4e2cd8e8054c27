"""Of which time a table says something else between two of its versions; no change feed is kept.

Who put rows in the place of others knows best, and says it in the entry (jobs/run/windows.py). Where somebody did not,
the files that came and went are compared.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run.files import files_between
from jobs.run.ledger import between
from jobs.run.rows import OPEN
from jobs.run.same_key import by_key
from jobs.run.swap import changes

Reach = tuple[int, int]
"""The first and the last microsecond of a time."""

NO_TIME = (0, -1)
"""A reach in which no moment lies."""


def changed_span(
    spark: SparkSession, source: Table, path: Path, before: int, now: int
) -> Reach | None:
    """Return the first and the last microsecond of which a table says something else; None when it does of none."""
    said = [entry.speaks_of for entry in between(path, before + 1, now)]
    told = [reach for reach in said if reach is not None]
    if len(told) == now - before:
        return hull([reach for reach in told if reach != NO_TIME])
    rows = _changed_rows(spark, path, before, now)
    return None if rows is None else reach_of(rows, source)


def hull(reaches: Sequence[Reach]) -> Reach | None:
    """Return the shortest time that holds all of some; None for none."""
    if not reaches:
        return None
    firsts, lasts = zip(*reaches, strict=True)
    return min(firsts), max(lasts)


def reach_of(rows: DataFrame, source: Table) -> Reach | None:
    """Return of which time rows speak that only one of two versions has; None when there is no row.

    An interval that has ended meanwhile says nothing new of the time before its end: from there on it counts, and
    not from its beginning, which may lie months back.
    """
    begins = F.unix_micros(str(source.event_at))
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


def reach_of_change(rows: DataFrame, held: DataFrame, source: Table) -> Reach | None:
    """Return of which time a table says something else when rows take the place of those with the same key.

    By the key each row finds the one before it, so nothing need be sorted or shuffled as in ``reach_of``.
    """
    end = _end(source)
    others = [name for name in rows.columns if name not in {*source.key, *_moving(source)}]
    begins = F.unix_micros(str(source.event_at))
    told = [begins.alias("_begins"), end.alias("_end"), F.struct(*others, begins).alias("_says")]
    new = rows.select(*source.key, *told)
    old = held.select(*source.key, *told).withColumnsRenamed(
        {name: f"{name}_before" for name in ("_begins", "_end", "_says")}
    )
    both = by_key(new, old, source.key, "left")
    since = F.least("_begins", F.coalesce("_begins_before", "_begins"))
    until = F.coalesce("_end_before", "_end")
    is_same = F.col("_says").eqNullSafe(F.col("_says_before"))
    first = F.when(is_same, F.least("_end", until)).otherwise(since)
    lowest, highest = both.agg(F.min(first), F.max(F.greatest("_end", until))).collect()[0]
    return None if lowest is None else (lowest, highest)


def _moving(source: Table) -> set[str | None]:
    """Return the columns that may change when an interval ends, and say nothing else of it: its end and its folder."""
    return {source.valid_until, source.window_from} - {source.event_at}


def _end(source: Table) -> Column:
    """Return the last microsecond of which a row speaks."""
    if source.valid_until is None:
        return F.unix_micros(str(source.event_at))
    return F.coalesce(F.unix_micros(source.valid_until), F.lit(OPEN))


def _changed_rows(spark: SparkSession, path: Path, before: int, now: int) -> DataFrame | None:
    """Return the rows that one version has and the other has not; None when no file came or went."""
    came, went = files_between(path, before + 1, now)
    # With the base, a column that divides the table's folders is read from their names.
    read = partial(spark.read.option("basePath", str(path)).parquet)
    new = read(*sorted(came)) if came else None
    old = read(*sorted(went)) if went else None
    if new is None or old is None:
        return new if old is None else old
    return changes(new, old).drop("_more")
