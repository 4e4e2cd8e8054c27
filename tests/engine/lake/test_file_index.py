"""The rows of a time range are found without reading the table's other files, and none is missed."""

import json
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.engine.lake.commit.delta_commit import OPEN, rows_at
from strandline.engine.lake.commit.file_index import FileIndex
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.support.executions import executions
from tests.support.rows import NOON, micros

pytestmark = pytest.mark.whole

HOUR = 3_600_000_000
KINDS = "n long, begins timestamp, ends timestamp, hour timestamp"


def grown(spark: SparkSession, path: Place, chance: random.Random, by: tuple[str, ...]) -> None:
    """Create a table in six commits of a few intervals each; one commit removes half of the earlier ones."""
    for number in range(5):
        rows = [interval(chance, 10 * number + n) for n in range(3)]
        writer = spark.createDataFrame(rows, KINDS).coalesce(1).write.format("delta")
        writer.mode("append").partitionBy(*by).save(str(path))
        if number == 2:
            DeltaTable.forPath(spark, str(path)).delete("n % 2 = 0")


def interval(chance: random.Random, number: int) -> tuple[object, ...]:
    begins = NOON + timedelta(microseconds=chance.randrange(100 * HOUR))
    length = timedelta(microseconds=chance.randrange(5 * HOUR))
    ends = None if chance.random() < 0.1 else begins + length
    return (number, begins, ends, begins.replace(minute=0, second=0, microsecond=0))


def within(rows: DataFrame, begins: str, ends: str | None, span: tuple[int, int]) -> Counter[int]:
    """Return the rows that are valid within a range."""
    last = F.coalesce(F.unix_micros(ends), F.lit(OPEN)) if ends else F.unix_micros(begins)
    found = rows.where((F.unix_micros(begins) <= span[1]) & (last >= span[0]))
    return Counter(row["n"] for row in found.select("n").collect())


@pytest.mark.parametrize(
    ("columns", "by"),
    [([("begins", "ends"), ("begins", None)], ()), ([("hour", None)], ("hour",))],
)
def test_no_row_of_a_span_is_missed(
    spark: SparkSession,
    tmp_path: Path,
    chance: random.Random,
    columns: list[tuple[str, str | None]],
    by: tuple[str, ...],
) -> None:
    """At every version, whichever version was read before, also where the index has forgotten files."""
    path = Place.of(tmp_path / "table")
    grown(spark, path, chance, by)

    for begins, ends in columns:
        none_is_missed(spark, path, chance, begins, ends)


def none_is_missed(
    spark: SparkSession, path: Place, chance: random.Random, begins: str, ends: str | None
) -> None:
    """Compare what the index finds in spans that are drawn with the table's own rows."""
    index = FileIndex(spark, path, begins, ends, kept=1)
    newest = latest_version(path)

    for version in (newest // 2, newest, newest - 1):
        first = micros(NOON) + chance.randrange(100 * HOUR)
        span = (first, first + chance.randrange(10 * HOUR))
        expected = within(rows_at(spark, path, version), begins, ends, span)

        found = index.rows(version, *span)

        assert within(found, begins, ends, span) == expected
        everything = Counter(row["n"] for row in index.rows(version).select("n").collect())
        assert everything == Counter(
            row["n"] for row in rows_at(spark, path, version).select("n").collect()
        )
    assert index.files(newest, 0, HOUR) == [], "which is years before"


@pytest.mark.parametrize("ends", ["ends", None])
def test_the_last_microsecond_of_a_file_is_found(
    spark: SparkSession, tmp_path: Path, ends: str | None
) -> None:
    """Delta truncates a time in its statistics to milliseconds."""
    path, end = Place.of(tmp_path / "table"), NOON + timedelta(microseconds=999)
    frame = spark.createDataFrame([(1, NOON if ends else end, end, NOON)], KINDS)
    frame.write.format("delta").save(str(path))
    index = FileIndex(spark, path, "begins", ends)

    assert len(index.files(0, micros(NOON) + 999, OPEN)) == 1
    assert index.files(0, micros(NOON) + 2_000, OPEN) == []


def test_columns_that_were_added_later_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """A rebuilt table may have them."""
    path = Place.of(tmp_path / "table")
    row = (1, NOON, None, NOON)
    spark.createDataFrame([row], KINDS).write.format("delta").save(str(path))
    index = FileIndex(spark, path, "begins", "ends")
    index.rows(0)
    more = spark.createDataFrame([row], KINDS).withColumn("more", F.lit("x"))
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(str(path))

    found = index.rows(1).select("more").collect()

    assert Counter(row[0] for row in found) == Counter([None, "x"])


def test_an_index_that_has_forgotten_nothing_answers_an_open_question_from_memory(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    """A batch over everything asks for all time; Spark would read the whole log for it, by a job."""
    path = Place.of(tmp_path / "table")
    grown(spark, path, chance, ())
    index = FileIndex(spark, path, "begins", "ends")

    found: list[str] = []
    asked = executions(spark, lambda: found.extend(index.files(latest_version(path))))

    assert asked == 0
    assert sorted(json.loads(line)["add"]["path"] for line in found) == sorted(
        each.rpartition("/")[2] for each in rows_at(spark, path, latest_version(path)).inputFiles()
    )
