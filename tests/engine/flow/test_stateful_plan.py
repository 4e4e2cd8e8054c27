"""What a stream keeps is described for every table that may be declared."""

from dataclasses import replace
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.lineage.column_lineage import derive_lineage
from strandline.engine.flow.spark_plan import Node, written
from strandline.engine.lake.checkpoint.spark_checkpoint import read_record
from strandline.engine.lake.lake import Lake
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS
from tests.support.modes import derive

pytestmark = pytest.mark.core


@pytest.mark.whole
def test_a_key_may_have_the_event_time(spark: SparkSession, lake: Lake) -> None:
    """A scan of a parcel is known by the parcel and the moment."""
    table = replace(silver.TABLE, key=("event_id", "event_at"))
    received(lake, readings(EVENTS))

    derive(spark, lake, table)

    assert balance(table, lake).balanced


FIELD = (
    "GetArrayItem(JsonToStructs(bronze.device_telemetry._payload), 0, failOnError=false, ordinal=1)"
)
SIGNS = ((5, "EqualTo({}, -)"), (8, "EqualTo({}, -)"), (11, "In({}, T,  )"), (14, "EqualTo({}, :)"))
"""Where a whole time has which signs, as the strict parse asks for them."""


@pytest.mark.whole
def test_the_strict_parse_gives_the_keys_that_lakes_of_before_have(
    spark: SparkSession, lake: Lake
) -> None:
    """Another expression of the same meaning is another key to them, and their streams would not start."""
    received(lake, readings(EVENTS))

    derive(spark, lake, silver.TABLE)

    record = read_record(lake.checkpoint(silver.TABLE))
    assert record is not None
    keys = dict(record.plan["operators"][0]["keys"])
    signs = [sign.format(f"Substring({FIELD}.event_at, {at}, 1)") for at, sign in SIGNS]
    whole = reduce(lambda left, right: f"And({left}, {right})", signs)
    time = f'CaseWhen({whole}, Cast({FIELD}.event_at, dataType="timestamp", timeZoneId="UTC"))'
    assert f"{FIELD}.event_id" in keys["event_id"].split(" | ")
    assert time in keys["event_at"].split(" | ")


def test_bytes_in_a_key_are_the_same_at_every_start() -> None:
    """Spark prints them by where they lie in memory."""
    literal = Node("Literal", {"value": "[B@49c2e1e3"}, ())

    assert written(literal, {}) == written(replace(literal, fields={"value": "[B@385fd72a"}), {})


def by_sql(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.sql("SELECT * FROM {rows}", rows=rows)


@pytest.mark.whole
def test_a_function_may_ask_by_sql(spark: SparkSession, lake: Lake) -> None:
    """``sql("… {rows}", rows=rows)`` makes a view, which is a part of the plan."""

    def of_sql(events: DataFrame) -> DataFrame:
        return by_sql(silver.TABLE.transform(events))

    table = replace(silver.TABLE, transform=of_sql)
    received(lake, readings(EVENTS))

    windows = replace(
        gold.TABLE,
        reads=(table,),
        transform=lambda readings: gold.device_signal_10m(by_sql(readings)),
        dimension=None,
    )
    derive(spark, lake, table, windows)
    derive(spark, lake, table, windows)

    for each in (table, windows):
        assert balance(each, lake).balanced
        assert balance(each, lake).read
        assert derive_lineage(spark, each)
