"""Two shapes of a reading become one table."""

import pytest
from pyspark.sql import SparkSession

from fleet.silver.device_telemetry import TABLE
from tests.support.read import read
from tests.support.sources import judged_as_the_truth

pytestmark = pytest.mark.whole

OLDER = b"e1,dev-00207,temp,70.43,1795162530123,1.1.0,17"


def test_a_reading_of_the_older_shape_is_translated(spark: SparkSession) -> None:
    """Other names, Fahrenheit, kilopascals; what has no other name keeps its own."""
    lines = (
        OLDER,
        OLDER.replace(b"temp,70.43", b"press,101.3250"),
        OLDER.replace(b"temp,70.43", b"co2,412"),
        OLDER.replace(b"70.43", b""),
    )

    found = read(spark, TABLE, *lines, topic="device-telemetry-v1")

    assert [(row["signal"], row["value"]) for row in found] == [
        ("temperature", "21.3500"),
        ("pressure", "1013.2500"),
        ("co2", "412.0000"),
        ("temperature", "-"),
    ]
    assert {row["event_at"] for row in found} == {"08:15:30.123000"}
    assert {row["_problem"] for row in found} == {"-"}


def test_what_does_not_fit_when_it_is_translated_is_of_the_wrong_type(spark: SparkSession) -> None:
    """Each fits the cell that it came in; a sum that throws would end the stream at that line for ever."""
    lines = (
        OLDER.replace(b"temp,70.43", b"press,2000000000"),
        OLDER.replace(b"temp,70.43", b"press,-9999999999.9999"),
        OLDER.replace(b"1795162530123", b"9223372036854775807"),
        OLDER.replace(b"1795162530123", b"-9223372036854775808"),
        OLDER.replace(b"70.43", b"9999999999.9999"),
    )

    found = read(spark, TABLE, *lines, topic="device-telemetry-v1")

    assert [row["_problem"] for row in found] == [*["wrong_type"] * 4, "-"]
    assert found[-1]["value"] == "5555555537.7777"


def test_both_shapes_get_the_reasons_of_the_truth(spark: SparkSession) -> None:
    """To the last event, against code that shares nothing with the table."""
    assert judged_as_the_truth(spark, TABLE)
