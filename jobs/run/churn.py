"""What of a table differs between two of its versions, from the files that came and went; no change feed is kept."""

from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run.ledger import files_between
from jobs.run.rows import OPEN


def changed_span(
    spark: SparkSession, source: Table, path: Path, before: int, now: int
) -> tuple[int, int] | None:
    """Return the first and the last microsecond of which a table says something else; None when it does of none.

    An interval that has ended meanwhile says nothing new of the time before its end: from there on it counts, and
    not from its beginning, which may lie months back.
    """
    rows = changed_rows(spark, path, before, now)
    if rows is None:
        return None
    begins = F.unix_micros(str(source.event_at))
    if source.valid_until is None:
        spans = rows.select(begins.alias("first"), begins.alias("last"))
    else:
        end = F.coalesce(F.unix_micros(source.valid_until), F.lit(OPEN))
        same = [name for name in rows.columns if name != source.valid_until]
        ends = rows.groupBy(*same).agg(F.array_sort(F.collect_list(end)).alias("ends"))
        first = F.when(F.size("ends") > 1, F.get("ends", F.lit(0))).otherwise(begins)
        spans = ends.select(first.alias("first"), F.array_max("ends").alias("last"))
    lowest, highest = spans.agg(F.min("first"), F.max("last")).collect()[0]
    return None if lowest is None else (lowest, highest)


def changed_rows(spark: SparkSession, path: Path, before: int, now: int) -> DataFrame | None:
    """Return the rows that one version has and the other has not; None when no file came or went."""
    came, went = files_between(path, before + 1, now)
    # With the base, a column that divides the table's folders is read from their names.
    read = partial(spark.read.option("basePath", str(path)).parquet)
    new = read(*sorted(came)) if came else None
    old = read(*sorted(went)) if went else None
    if new is None or old is None:
        return new if old is None else old
    return new.exceptAll(old).unionByName(old.exceptAll(new))
