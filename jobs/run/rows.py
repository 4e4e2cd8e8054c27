"""A table's rows at a version, or as they stand."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.ledger import latest_version

OPEN = 1 << 62
"""The end of what has none, in microseconds since 1970; no date is as large."""


def rows_at(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """Return the rows of a table at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


def rows_now(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return a table's rows as they stand."""
    path = lake.table(table)
    return rows_at(spark, path, latest_version(path))
