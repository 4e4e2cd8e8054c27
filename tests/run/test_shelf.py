"""A shelf knows where each window lies, also after somebody else has been there."""

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType, TimestampType

from jobs.run import delta
from jobs.run.shelf import EPOCH, MICROSECOND, Shelf
from tests.support.rows import at

SCHEMA = StructType().add("window_from", TimestampType()).add("readings", LongType())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Path:
    """Return an empty table that is partitioned by its windows."""
    delta.create(spark, tmp_path / "t", SCHEMA, partition_by=["window_from"])
    return tmp_path / "t"


def micros(clock: str) -> int:
    moment: datetime = at(clock)
    return (moment - EPOCH) // MICROSECOND


def said(spark: SparkSession, table: Path, shelf: Shelf, *clocks: str) -> list[str]:
    """Put windows in the place of what was known of them, and return the files that had held them."""
    commit = delta.Commit(spark, table)
    starts = {micros(clock) for clock in clocks}
    older = shelf.holding(commit, starts)
    if older:
        commit.take_out(older)
    rows = spark.createDataFrame([(at(clock), 1) for clock in clocks], SCHEMA)
    written = commit.write(rows.coalesce(1))
    shelf.replaced(commit.commit("{}"), starts, written)
    return older


def test_windows_are_found_where_they_were_last_put(spark: SparkSession, table: Path) -> None:
    """The second time by memory, and by a new shelf from the table itself."""
    shelf = Shelf("window_from")

    assert said(spark, table, shelf, "09:00:00", "09:10:00.000001") == []
    assert len(said(spark, table, shelf, "09:00:00", "10:00:00")) == 1
    assert len(said(spark, table, Shelf("window_from"), "09:00:00", "09:10:00.000001")) == 2
    assert spark.read.format("delta").load(str(table)).count() == 3


def test_a_shelf_looks_again_when_somebody_else_has_written(
    spark: SparkSession, table: Path
) -> None:
    """Maintenance rewrites files; what is remembered of the old ones is worth nothing then."""
    shelf = Shelf("window_from")
    said(spark, table, shelf, "09:00:00")
    said(spark, table, Shelf("window_from"), "09:00:00")

    (held,) = said(spark, table, shelf, "09:00:00")

    assert "09" in held
    assert spark.read.format("delta").load(str(table)).count() == 1
