"""What a plan with state gives is computed by all tasks and once, and becomes as many files as it needs."""

import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.gold import confirmed_logins, ip_holds
from jobs.run import delta
from jobs.run.ledger import Entry, commit_file, latest_version
from jobs.run.meter import Meter
from jobs.run.sized import SMALL, rows_in, sized, write
from jobs.run.windows import Windows
from tests.support.rows import NOON

MANY = SMALL + 10_000
TASKS = 2
JOBS = Path(__file__).parents[2] / "jobs"


def entry() -> Entry:
    return Entry(table="gold.any", mode="test", stream="s", batch=0, source="silver.any", read=MANY)


def made(spark: SparkSession, count: int, *, hours: int = 1) -> DataFrame:
    """Return holds of that many addresses, made by two tasks, each of which leaves its number."""
    numbers = spark.range(0, count, numPartitions=TASKS)
    hour = F.timestamp_seconds(F.lit(int(NOON.timestamp())) + F.col("id") % hours * 3_600)
    return numbers.select(
        F.col("id").cast("string").alias("ip"),
        hour.alias("held_from"),
        F.lit(None).cast("timestamp").alias("held_until"),
        F.spark_partition_id().alias("task"),
        hour.alias("window_from"),
    )


def files(path: Path) -> list[str]:
    """Return the files that the last commit added, as its log says them."""
    lines = commit_file(path, latest_version(path)).read_text().splitlines()
    return [line for line in lines if line.startswith('{"add":')]


def test_windows_that_are_final_are_computed_by_all_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One file of the whole would make one task compute all of it."""
    rows = made(spark, MANY)
    delta.create(spark, tmp_path / "table", rows.schema)

    Windows(confirmed_logins.TABLE, tmp_path / "table").append(rows, entry, Meter(spark))

    found = spark.read.format("delta").load(str(tmp_path / "table"))
    assert {row["task"] for row in found.select("task").distinct().collect()} == {*range(TASKS)}
    assert sorted(map(rows_in, files(tmp_path / "table"))) == [MANY // TASKS] * TASKS


def test_windows_that_change_become_files_of_a_size_in_each_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two tasks would leave two files in each of ten folders; one folder of too many rows is divided."""
    for hours, most in ((10, 10), (1, 2)):
        path, rows = tmp_path / str(hours), made(spark, MANY, hours=hours)
        delta.create(spark, path, rows.schema, partition_by=["window_from"])
        windows = Windows(ip_holds.TABLE, path)

        for _ in range(2):  # the second time all of them are replaced
            windows.change(rows, entry, Meter(spark))

            found = spark.read.format("delta").load(str(path))
            assert found.count() == MANY
            assert found.select("task").distinct().count() == TASKS
            assert len(files(path)) <= most, hours


def test_few_rows_are_one_file_and_nothing_is_computed_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A batch that is read twice would bring a query's state forward twice."""
    for count, expected in ((100, 1), (MANY, TASKS)):
        path, seen = tmp_path / str(count), spark.sparkContext.accumulator(0)

        def noted(batches, seen=seen):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # runs in a worker of Spark
            for batch in batches:
                seen.add(batch.num_rows)
                yield batch

        rows = made(spark, count)
        rows = rows.mapInArrow(noted, rows.schema)
        delta.create(spark, path, rows.schema)
        commit = delta.Commit(spark, path)

        written = write(commit, rows)
        commit.commit("")

        assert (written.rows, len(written.files), seen.value) == (count, expected, count)


@pytest.mark.parametrize(
    ("count", "folders", "expected"), [(MANY, 1, 2), (MANY, 2, 1), (10 * MANY, 2, 6)]
)
def test_a_folder_gets_a_file_for_so_many_rows(
    spark: SparkSession, count: int, folders: int, expected: int
) -> None:
    """Of one more than it may hold it gets two."""
    plan = sized(made(spark, 1), count, folder="window_from", folders=folders)
    (pieces,) = re.findall(r"pmod\(.*?, (\d+)\)", plan._jdf.queryExecution().toString())[:1]
    assert int(pieces) == expected


def test_nobody_else_makes_one_file_of_a_plan() -> None:
    """Bronze counts offsets before it reads, and an archive's certificate is one row."""
    found = Counter(
        path.relative_to(JOBS).as_posix()
        for path in JOBS.rglob("*.py")
        for _ in re.finditer(r"\.coalesce\(1\)", path.read_text())
    )
    assert found == {"run/sized.py": 1, "run/bronze.py": 1, "run/archive.py": 1}
