"""A table whose creation was killed before its first commit is created by the next run."""

from pathlib import Path

from pyspark.sql import SparkSession

from jobs.core.received import RECEIVED
from jobs.engine.storage import delta_commit
from jobs.engine.storage.ledger import is_table
from jobs.engine.storage.place import Place


def test_an_empty_log_is_no_table_and_does_not_stop_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.d0c7.tmp").write_text("{")

    delta_commit.create(spark, Place.of(log.parent), RECEIVED)

    assert is_table(Place.of(log.parent))


def test_a_log_with_a_commit_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = Place.of(tmp_path / "table")
    delta_commit.create(spark, path, RECEIVED)
    before = (path / "_delta_log" / "00000000000000000000.json").local.read_text()

    delta_commit.create(spark, path, RECEIVED)

    assert (path / "_delta_log" / "00000000000000000000.json").local.read_text() == before
