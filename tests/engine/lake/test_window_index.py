"""The index finds the files of each window, also after another writer's commit."""

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType, TimestampType

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND, WindowIndex
from strandline.engine.lake.place import Place
from tests.support.rows import at

pytestmark = pytest.mark.whole

SCHEMA = StructType().add("window_from", TimestampType()).add("readings", LongType())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Place:
    """Return an empty table that is partitioned by its windows."""
    path = Place.of(tmp_path / "t")
    create_table.create(spark, path, SCHEMA, partition_by=["window_from"])
    return path


def micros(clock: str) -> int:
    moment: datetime = at(clock)
    return (moment - EPOCH) // MICROSECOND


def replaced(spark: SparkSession, table: Place, index: WindowIndex, *clocks: str) -> list[str]:
    """Replace windows, and return the files that held them before."""
    commit = delta_commit.Commit(spark, table)
    starts = {micros(clock) for clock in clocks}
    older = index.holding(commit, starts)
    if older:
        commit.take_out(older)
    rows = spark.createDataFrame([(at(clock), 1) for clock in clocks], SCHEMA)
    written = commit.write(rows.coalesce(1))
    index.replaced(commit.commit("{}"), starts, written)
    return older


def test_windows_are_found_where_they_were_last_written(spark: SparkSession, table: Place) -> None:
    """The second time from memory, by a new index from the table itself, and by a third that forgets them at once."""
    index, other = WindowIndex("window_from"), WindowIndex("window_from")
    short = WindowIndex("window_from", kept=0)

    assert replaced(spark, table, index, "09:00:00", "09:10:00.000001") == []
    assert len(replaced(spark, table, index, "09:00:00", "10:00:00")) == 1
    assert len(replaced(spark, table, other, "09:00:00", "09:10:00.000001")) == 2
    assert len(replaced(spark, table, short, "09:00:00", "10:00:00")) == 2
    assert len(replaced(spark, table, short, "09:00:00", "09:10:00.000001")) == 2
    assert short.between(delta_commit.Commit(spark, table), 0, micros("09:30:00")) == [
        micros("09:00:00"),
        micros("09:10:00.000001"),
    ]
    assert spark.read.format("delta").load(str(table)).count() == 3


def test_the_index_is_read_again_after_another_writer(spark: SparkSession, table: Place) -> None:
    """Maintenance rewrites files, so the remembered ones no longer exist."""
    index = WindowIndex("window_from")
    replaced(spark, table, index, "09:00:00")
    replaced(spark, table, WindowIndex("window_from"), "09:00:00")

    (held,) = replaced(spark, table, index, "09:00:00")

    assert "09" in held
    assert spark.read.format("delta").load(str(table)).count() == 1


def test_an_index_that_missed_a_commit_forgets_what_it_knew(
    spark: SparkSession, table: Place
) -> None:
    """It would otherwise believe in the file that the other writer has replaced."""
    index = WindowIndex("window_from")
    replaced(spark, table, index, "09:00:00")
    replaced(spark, table, WindowIndex("window_from"), "09:00:00")
    commit = delta_commit.Commit(spark, table)
    written = commit.write(spark.createDataFrame([(at("10:00:00"), 1)], SCHEMA).coalesce(1))
    index.replaced(commit.commit("{}"), {micros("10:00:00")}, written)

    now, asked = delta_commit.Commit(spark, table), {micros("09:00:00")}

    assert index.holding(now, asked) == WindowIndex("window_from").holding(now, asked)
