"""Rows are replaced in the files that hold them, and later replacements do not rewrite more and more."""

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.commit.replace_rows import HOUR, Exchange, swap
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.support.rows import NOON

pytestmark = pytest.mark.whole

HOURS = 4
PER_HOUR = 6
LATE = f"n % {HOURS * PER_HOUR // 2} = 0"
"""The first row, and one of two hours later."""


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a table as a stream does, a file every ten minutes."""
    path = Place.of(tmp_path_factory.mktemp("grown") / "table")
    for n in range(HOURS * PER_HOUR):
        row = [(n, NOON + timedelta(minutes=10 * n), 0)]
        rows = spark.createDataFrame(row, "n long, event_at timestamp, value long")
        if not n:
            create_table.create(spark, path, rows.schema)
        commit = delta_commit.Commit(spark, path)
        commit.write(rows.coalesce(1))
        commit.commit("")
    return path.local


@pytest.fixture
def path(grown: Path, tmp_path: Path) -> Place:
    """Return a copy of it, for one test alone."""
    return Place.of(shutil.copytree(grown, tmp_path / "table"))


def corrected(spark: SparkSession, path: Place, which: str) -> None:
    """Increase the value of some rows by one."""
    live = rows_at(spark, path, latest_version(path))
    come = live.where(which).withColumn("value", F.col("value") + 1)
    literal = spark.createDataFrame(come.collect(), come.schema)

    def goes(held: DataFrame) -> DataFrame:
        return held.where(which)

    exchange = Exchange(
        at="event_at",
        goes=goes,
        stays=lambda held: held.where(f"not ({which})"),
        come=literal,
        coming=literal.count(),
    )
    swap(spark, path, exchange, "")


def written(path: Place) -> list[int]:
    """Return the number of rows in each file of the last commit."""
    lines = commit_file(path, latest_version(path)).local.read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if line.startswith('{"add":')]
    return sorted(json.loads(add["stats"])["numRecords"] for add in adds)


def test_rows_that_are_far_apart_stay_apart_however_often_they_are_corrected(
    spark: SparkSession, path: Place
) -> None:
    """One file with both would cover two hours, and every later replacement in between would rewrite all of it."""
    for _ in range(3):
        corrected(spark, path, LATE)
        assert written(path) == [1, 1]

    found = Counter(row["value"] for row in rows_at(spark, path, latest_version(path)).collect())
    assert found == {0: HOURS * PER_HOUR - 2, 3: 2}


def test_files_of_an_hour_become_one(spark: SparkSession, path: Place) -> None:
    """Corrections then leave fewer files, and none that covers a long time."""
    corrected(spark, path, "true")

    sizes = written(path)
    assert sum(sizes) == HOURS * PER_HOUR
    assert HOURS * 6 // 7 <= len(sizes) <= HOURS, (
        "an hour's files and the first of the next are seven"
    )
    assert timedelta(hours=1) // timedelta(microseconds=1) == HOUR
