"""One commit holds the rows and the entry that counts them, completely or not at all.

This file makes every call into Delta's transaction that jobs/strandline/engine/lake/commit/delta_commit.py makes, so a version of Delta
that changes one of them fails here first.
"""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import jvm
from tests.support.executions import executions

SCHEMA = StructType().add("part", LongType()).add("number", LongType())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Place:
    """Return an empty table with two partitions."""
    path = Place.of(tmp_path / "a table, with spaces & ümlauts")
    create_table.create(spark, path, SCHEMA, partition_by=["part"])
    return path


def rows(spark: SparkSession, count: int, part: int = 0) -> DataFrame:
    numbers = spark.range(count).withColumnRenamed("id", "number")
    return numbers.select(F.lit(part).cast("bigint").alias("part"), "number").coalesce(1)


def appended(spark: SparkSession, path: Place, count: int, part: int = 0) -> None:
    commit = delta_commit.Commit(spark, path)
    commit.write(rows(spark, count, part))
    commit.commit("{}")


def actions(path: Place, version: int) -> list[str]:
    """Return the kinds of actions in a commit."""
    log = (path / "_delta_log" / f"{version:020d}.json").local.read_text()
    return sorted(next(iter(json.loads(line))) for line in log.splitlines())


def metadata(path: Place, version: int) -> str:
    log = (path / "_delta_log" / f"{version:020d}.json").local.read_text()
    infos = [json.loads(line).get("commitInfo") for line in log.splitlines()]
    return str(next(info for info in infos if info)["userMetadata"])


def there(path: Place) -> list[tuple[int, int]]:
    """Read the table with another implementation of Delta."""
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["part"], row["number"]) for row in found)


@pytest.mark.whole
def test_rows_and_metadata_are_one_commit(spark: SparkSession, table: Place) -> None:
    """Neither the entry nor its rows can exist without the other."""
    commit = delta_commit.Commit(spark, table)
    written = commit.write(rows(spark, 3))
    assert there(table) == []

    version = commit.commit('{"said":"of them"}')

    assert (written.rows, version, commit.read_version) == (3, 1, 0)
    assert there(table) == [(0, 0), (0, 1), (0, 2)]
    assert metadata(table, 1) == '{"said":"of them"}'
    assert actions(table, 1) == ["add", "commitInfo"]


@pytest.mark.whole
def test_spark_and_delta_rs_read_the_same(spark: SparkSession, table: Place) -> None:
    """``strandline query`` reads without Spark what Spark wrote."""
    appended(spark, table, 5, part=1)

    by_spark = spark.read.format("delta").load(str(table)).collect()

    assert sorted((row["part"], row["number"]) for row in by_spark) == there(table)


def jobs_of(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_few_files_are_read_at_a_version_without_a_job_over_the_log(
    spark: SparkSession, table: Place
) -> None:
    """In the session that asks, whichever was used last; each version has its own rows."""
    appended(spark, table, 3)
    appended(spark, table, 2, part=1)
    forms = jvm(spark).org.apache.spark.sql.classic.SparkSession
    forms.setActiveSession(spark.newSession()._jsparkSession)
    try:
        rows = delta_commit.rows_at(spark, table, 2)
    finally:
        forms.setActiveSession(spark._jsparkSession)
    before = jobs_of(spark)

    found = sorted(map(tuple, rows.collect()))

    assert (found, jobs_of(spark) - before) == (there(table), 1)
    rows.createOrReplaceTempView("few_files")
    assert spark.sql("SELECT count(*) FROM few_files WHERE part = 1").collect()[0][0] == 2
    assert delta_commit.rows_at(spark, table, 1).count() == 3
    assert delta_commit.rows_at(spark, table, 0).count() == 0


@pytest.mark.whole
def test_tasks_without_rows_leave_no_file_in_the_commit(spark: SparkSession, table: Place) -> None:
    """A stream reads file by file, and an empty file would cost as much as any other."""
    commit = delta_commit.Commit(spark, table)

    written = commit.write(rows(spark, 2).repartition(5, "number"))
    commit.commit("{}")

    assert written.rows == 2
    assert not written.is_empty
    assert len(DeltaTable(table).file_uris()) <= 2


@pytest.mark.whole
def test_a_commit_without_rows_still_has_its_entry(spark: SparkSession, table: Place) -> None:
    """A batch whose rows are all quarantined must advance the ledger."""
    commit = delta_commit.Commit(spark, table)
    written = commit.write(rows(spark, 0))

    version = commit.commit('{"read":9}')

    assert written.is_empty
    assert actions(table, version) == ["commitInfo"]
    assert metadata(table, version) == '{"read":9}'


@pytest.mark.whole
def test_files_written_and_never_committed_are_not_seen(spark: SparkSession, table: Place) -> None:
    """A crash before the commit leaves such files."""
    delta_commit.Commit(spark, table).write(rows(spark, 3))

    assert there(table) == []
    assert list(table.local.rglob("*.parquet"))


@pytest.mark.whole
def test_a_replacement_is_atomic_and_touches_only_the_files_it_names(
    spark: SparkSession, table: Place
) -> None:
    """A changed window replaces its former row in one version."""
    appended(spark, table, 2, part=0)
    appended(spark, table, 2, part=1)

    commit = delta_commit.Commit(spark, table)
    older = commit.take_out([file for file in commit.files() if '"part":"1"' in file])
    kept = older.where("number = 1")
    commit.write(kept.unionByName(rows(spark, 9, part=1).where("number = 8")).coalesce(1))
    assert len(there(table)) == 4
    version = commit.commit("{}")

    assert there(table) == [(0, 0), (0, 1), (1, 1), (1, 8)]
    assert actions(table, version) == ["add", "commitInfo", "remove"]


@pytest.mark.whole
def test_all_is_replaced_in_one_version(spark: SparkSession, table: Place) -> None:
    """A reader sees the old rows or the new, never a mix."""
    appended(spark, table, 3, part=0)
    appended(spark, table, 3, part=1)

    commit = delta_commit.Commit(spark, table)
    commit.take_out_all()
    commit.write(rows(spark, 1, part=5))
    version = commit.commit("{}")

    assert there(table) == [(5, 0)]
    assert actions(table, version).count("remove") == 2


def test_to_take_out_all_files_of_a_small_table_spark_is_asked_for_none(
    spark: SparkSession, table: Place
) -> None:
    """Of none, and of few, which the checksum of the version lists; without it a job finds them."""
    of_none = executions(spark, lambda: delta_commit.Commit(spark, table).take_out_all())
    appended(spark, table, 2)
    appended(spark, table, 3, part=1)
    commit = delta_commit.Commit(spark, table)
    of_few = executions(spark, commit.take_out_all)

    assert (of_none, of_few) == (0, 0)
    version = commit.commit("{}")
    assert there(table) == []
    assert actions(table, version).count("remove") == 2


def test_all_files_are_taken_out_of_a_table_without_a_checksum(
    spark: SparkSession, table: Place
) -> None:
    """Another program has written it."""
    appended(spark, table, 2)
    appended(spark, table, 3, part=1)
    for version in range(3):
        delta_commit.forget_sum(table, version)
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

    commit = delta_commit.Commit(spark, table)
    taken = executions(spark, commit.take_out_all)
    commit.commit("{}")

    assert taken > 0
    assert there(table) == []


def test_the_log_is_never_expired(spark: SparkSession, table: Place) -> None:
    """The log is the ledger."""
    configuration = DeltaTable(table).metadata().configuration

    assert configuration["delta.enableExpiredLogCleanup"] == "false"
    assert spark.version


@pytest.mark.whole
def test_a_second_commit_of_one_version_is_refused(spark: SparkSession, table: Place) -> None:
    """The lease prevents it; if it happened all the same, Delta must not lose the first commit."""
    first, second = delta_commit.Commit(spark, table), delta_commit.Commit(spark, table)
    first.take_out_all()
    second.take_out_all()
    first.write(rows(spark, 1, part=1))
    second.write(rows(spark, 1, part=2))
    first.commit("{}")

    with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
        second.commit("{}")

    assert there(table) == [(1, 0)]


@pytest.mark.whole
def test_files_are_listed_whatever_their_statistics_contain(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Some programs end a line at these characters; the log does not."""
    path = Place.of(tmp_path / "table")
    create_table.create(spark, path, StructType().add("text", StringType()))
    commit = delta_commit.Commit(spark, path)
    commit.write(spark.createDataFrame([("a\u2028b\x85c\x0bd\r\ne",)], "text string").coalesce(1))
    commit.commit("{}")

    (file,) = delta_commit.Commit(spark, path).files()

    assert json.loads(file)["add"]["path"]


@pytest.mark.whole
def test_only_the_last_versions_keep_a_checksum_file_and_every_version_can_be_read(
    spark: SparkSession, table: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the files of a log that every batch lists are removed, and nothing else."""
    monkeypatch.setattr(delta_commit, "SUMS_KEPT", 2)
    for _ in range(5):
        appended(spark, table, 1)
    log = table / "_delta_log"
    assert sorted(int(sum_.stem) for sum_ in log.local.glob("*.crc")) == [4, 5]
    assert len(list(log.local.glob("*.json"))) == 6
    spark.catalog.clearCache()
    reader = spark.newSession().read.format("delta")
    seen = [reader.option("versionAsOf", n).load(str(table)).count() for n in range(6)]
    assert seen == [0, 1, 2, 3, 4, 5]
    assert len(there(table)) == 5
