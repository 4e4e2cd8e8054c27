"""A table's rows at a version, or at its latest."""

from pyspark.sql import DataFrame, SparkSession

from strandline.core.table import Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.place import Place

OPEN = 1 << 62
"""The end of an open range, in microseconds since 1970; larger than every date."""


def rows_at(spark: SparkSession, path: Place, version: int) -> DataFrame:
    """Return the rows of a table at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


def rows_now(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return a table's rows at its latest version."""
    path = lake.table(table)
    return rows_at(spark, path, latest_version(path))
