"""The event-time range in which two versions differ is found, and it is no longer than the difference."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fleet.gold import site_traffic_1h
from fleet.silver.devices import NOT_ENDED, TABLE
from strandline.engine.lake.commit.delta_commit import OPEN
from strandline.engine.lake.commit.replace_rows import changed_span, hull
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from tests.support.rows import at, lines, micros

BEFORE = """
    device_id | valid_from | valid_until | site
    d1        | 08:00:00   | 09:00:00    | berlin
    d1        | 09:00:00   | -           | osaka
    d2        | 07:00:00   | -           | lima
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("after", "first", "last"),
    [
        (BEFORE, None, None),
        (
            """
            device_id | valid_from | valid_until | site
            d1        | 08:00:00   | 09:00:00    | berlin
            d1        | 09:00:00   | 12:00:00    | osaka
            d1        | 12:00:00   | -           | boston
            d2        | 07:00:00   | -           | lima
            """,
            "12:00:00",
            None,
        ),
        (
            """
            device_id | valid_from | valid_until | site
            d1        | 08:00:00   | 08:30:00    | berlin
            d1        | 08:30:00   | 09:00:00    | boston
            d1        | 09:00:00   | -           | osaka
            d2        | 07:00:00   | -           | lima
            """,
            "08:30:00",
            "09:00:00",
        ),
        (
            """
            device_id | valid_from | valid_until | site
            d1        | 08:00:00   | 09:00:00    | lima
            d1        | 09:00:00   | -           | osaka
            d2        | 07:00:00   | -           | lima
            """,
            "08:00:00",
            "09:00:00",
        ),
    ],
    ids=["nothing", "the open interval ends", "an interval is divided", "a value is corrected"],
)
def test_an_interval_counts_from_where_it_differs(
    spark: SparkSession, lake: Lake, after: str, first: str | None, last: str | None
) -> None:
    """A device that moves today changes nothing in the months before."""
    path = lake.table(TABLE)
    for text in (BEFORE, after):
        shown = [
            (row["device_id"], moment(row["valid_from"]), moment(row["valid_until"]), row["site"])
            for row in lines(text)
        ]
        kinds = "device_id string, valid_from timestamp, valid_until timestamp, site string"
        folder = F.coalesce(F.date_trunc("day", "valid_until"), F.lit(NOT_ENDED))
        frame = spark.createDataFrame(shown, kinds).coalesce(1).withColumn("ended_on", folder)
        frame.write.format("delta").mode("overwrite").save(str(path))
    now = latest_version(path)

    found = changed_span(spark, TABLE, path, now - 1, now)

    expected = first and (micros(at(first)), micros(at(last)) if last else OPEN)
    assert found == expected


@pytest.mark.whole
def test_a_partition_column_is_read_as_well(spark: SparkSession, lake: Lake) -> None:
    """A recomputed table is partitioned by the start of its windows, which other columns may depend on."""
    path = lake.table(site_traffic_1h.TABLE)
    kinds = "site string, window_from timestamp, window_until timestamp"
    row = ("lima", at("09:00:00"), at("10:00:00"))
    frame = spark.createDataFrame([row], kinds)
    frame.write.format("delta").partitionBy("window_from").save(str(path))

    found = changed_span(spark, site_traffic_1h.TABLE, path, -1, 0)

    assert found == (micros(at("09:00:00")), micros(at("10:00:00")))


def moment(text: str) -> object:
    return None if text == "-" else at(text)


def test_the_range_of_several_changes_reaches_from_the_first_moment_to_the_last() -> None:
    """However they overlap."""
    assert hull([(5, 9), (1, 3)]) == (1, 9)
    assert hull([(1, 9), (2, 3)]) == (1, 9)
    assert hull([]) is None
