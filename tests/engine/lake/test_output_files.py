"""The rows of a stateful plan are computed once, by all tasks, and written to as many files as they need."""

import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import ip_holds
from strandline.core.errors import DefinitionError
from strandline.engine.flow.batch.write_rows import Windows, append
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import SMALL, cut, rows_in, sized, write
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import Meter
from tests.support.rows import NOON

MANY = SMALL + 10_000
TASKS = 2
JOBS = Path(__file__).parents[3] / "jobs" / "strandline"


def entry() -> Entry:
    return Entry(table="gold.any", mode="test", stream="s", batch=0, source="silver.any", read=MANY)


def made(spark: SparkSession, count: int, *, hours: int = 1) -> DataFrame:
    """Return holds of that many addresses, computed by two tasks; each row has the number of its task."""
    numbers = spark.range(0, count, numPartitions=TASKS)
    hour = F.timestamp_seconds(F.lit(int(NOON.timestamp())) + F.col("id") % hours * 3_600)
    return numbers.select(
        F.col("id").cast("string").alias("ip"),
        hour.alias("held_from"),
        F.lit(None).cast("timestamp").alias("held_until"),
        F.spark_partition_id().alias("task"),
        hour.alias("window_from"),
    )


def files(path: Place) -> list[str]:
    """Return the files that the last commit added, as in its log."""
    lines = commit_file(path, latest_version(path)).local.read_text().splitlines()
    return [line for line in lines if line.startswith('{"add":')]


@pytest.mark.whole
def test_windows_that_are_final_are_computed_by_all_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A single file would make one task compute all of it."""
    rows = made(spark, MANY)
    create_table.create(spark, Place.of(tmp_path / "table"), rows.schema)

    append(rows, Place.of(tmp_path / "table"), entry(), Meter(spark))

    found = spark.read.format("delta").load(str(tmp_path / "table"))
    assert {row["task"] for row in found.select("task").distinct().collect()} == {*range(TASKS)}
    assert sorted(map(rows_in, files(Place.of(tmp_path / "table")))) == [MANY // TASKS] * TASKS


@pytest.mark.whole
def test_windows_that_change_become_files_of_a_size_in_each_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two tasks would write two files in each of ten folders; a folder with too many rows gets several files."""
    for hours, most, times in ((10, 10, 2), (1, 2, 1)):
        path, rows = Place.of(tmp_path / str(hours)), made(spark, MANY, hours=hours)
        create_table.create(spark, path, rows.schema, partition_by=["window_from"])
        windows = Windows(ip_holds.TABLE, path)

        for _ in range(times):  # the second time all of them are replaced
            windows.change(rows, entry(), Meter(spark))

            found = spark.read.format("delta").load(str(path))
            assert found.count() == MANY
            assert found.select("task").distinct().count() == TASKS
            assert len(files(path)) <= most, hours


@pytest.mark.whole
def test_few_rows_are_one_file_and_nothing_is_computed_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A batch that is read twice would advance a query's state twice."""
    for count, expected in ((100, 1), (MANY, TASKS)):
        path, seen = Place.of(tmp_path / str(count)), spark.sparkContext.accumulator(0)

        def noted(batches, seen=seen):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # runs in a worker of Spark
            for batch in batches:
                seen.add(batch.num_rows)
                yield batch

        rows = made(spark, count)
        rows = rows.mapInArrow(noted, rows.schema)
        create_table.create(spark, path, rows.schema)
        commit = delta_commit.Commit(spark, path)

        written = write(commit, rows)
        commit.commit("")

        assert (written.rows, len(written.files), seen.value) == (count, expected, count)


@pytest.mark.parametrize("folder", ["", "window_from"])
def test_a_batch_without_rows_leaves_no_file(
    spark: SparkSession, tmp_path: Path, folder: str
) -> None:
    """Most small batches of windows have none; a file without rows lies there for as long as the table. What does not fit is refused."""
    rows, path = made(spark, 0), Place.of(tmp_path / "table")
    folders = [folder] if folder else []
    create_table.create(spark, path, rows.schema, partition_by=folders)

    assert write(delta_commit.Commit(spark, path), rows, folder=folder).is_empty
    assert not list(path.local.rglob("*.parquet"))

    with pytest.raises(DefinitionError, match="cannot hold"):
        write(
            delta_commit.Commit(spark, path),
            rows.withColumn("task", F.lit("x")),
            folder=folder,
        )


def test_a_sum_is_that_of_the_rows_which_were_written(spark: SparkSession, tmp_path: Path) -> None:
    """By name, whatever letters it has, over all files; a NULL adds nothing."""
    column = 'a"count"'
    rows = made(spark, MANY).select(
        F.when(F.col("task") > 0, F.col("task").cast("bigint")).alias(column), "ip"
    )
    path = Place.of(tmp_path / "table")
    create_table.create(spark, path, rows.schema)

    written = write(delta_commit.Commit(spark, path), rows, counts=column)

    assert (written.counted, len(written.files)) == (MANY // TASKS, TASKS)


def test_rows_that_are_kept_have_a_plan_that_begins_there(spark: SparkSession) -> None:
    """They are computed once, whatever is asked of them, also where a plan was made before they were kept."""
    seen = spark.sparkContext.accumulator(0)

    def noted(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # runs in a worker of Spark
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    rows = made(spark, 100)
    rows = rows.mapInArrow(noted, rows.schema)
    rows.explain()
    kept = rows.persist()

    found = cut(kept)

    plan = found.where("task >= 0")
    leaves = plan._jdf.queryExecution().analyzed().collectLeaves()
    assert leaves.apply(0).nodeName() == "InMemoryRelation"
    assert (found.count(), plan.count(), found.columns) == (100, 100, rows.columns)
    assert seen.value == 100
    kept.unpersist()


@pytest.mark.parametrize(
    ("count", "folders", "expected"), [(MANY, 1, 2), (MANY, 2, 1), (10 * MANY, 2, 6)]
)
def test_a_folder_gets_a_file_for_so_many_rows(
    spark: SparkSession, count: int, folders: int, expected: int
) -> None:
    """One row more than a file may hold makes two files."""
    plan = sized(made(spark, 1), count, folder="window_from", folders=folders)
    (pieces,) = re.findall(r"pmod\(.*?, (\d+)\)", plan._jdf.queryExecution().toString())[:1]
    assert int(pieces) == expected


def test_no_other_module_coalesces_a_plan_to_one_file() -> None:
    """Few rows that are known to be few are counted by one task; bronze counts offsets before it reads, at most a slice's records come from Python, and a class archive is one row; a test gives few records."""
    found = Counter(
        path.relative_to(JOBS).as_posix()
        for path in JOBS.rglob("*.py")
        for _ in re.finditer(r"\.coalesce\(1\)", path.read_text())
    )
    assert found == {
        "engine/lake/commit/delta_commit.py": 2,
        "engine/flow/ingest.py": 2,
        "engine/kafka/send_records.py": 1,
        "engine/service/class_archive.py": 1,
    }
