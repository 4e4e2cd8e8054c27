"""What a stream keeps is described for every table that may be declared."""

from dataclasses import replace
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.parse import parse_json
from strandline.core.topic import Parse
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.function_plan import derive_lineage
from strandline.engine.flow.spark_plan import Node, columns, planned, tree, written
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.spark_checkpoint import read_record
from tests.support import wrapped_json
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


INNER = StructType().add("at", TimestampType()).add("cost", DecimalType(9, 2))
OF_MANY_TYPES = (
    StructType()
    .add("text", StringType())
    .add("number", LongType())
    .add("price", DecimalType(14, 4))
    .add("at", TimestampType())
    .add("day", DateType())
    .add("plain", StructType().add("seq", LongType()).add("name", StringType()))
    .add("inner", INNER)
    .add("deep", StructType().add("inner", INNER))
    .add("texts", ArrayType(StringType()))
    .add("a.b", StringType())
)
KEYS = (
    *(
        "text",
        "number",
        "price",
        "at",
        "day",
        "plain",
        "plain.seq",
        "inner",
        "inner.at",
        "inner.cost",
        "deep",
    ),
    *("deep.inner", "deep.inner.at", "texts", "`a.b`"),
)


def test_a_field_of_any_type_is_the_key_that_it_was(spark: SparkSession, lake: Lake) -> None:
    """Lakes of before keep their state by the text that a field had when Spark read it (tests/support/wrapped_json.py)."""
    received(lake, readings(EVENTS))
    events = spark.readStream.format("delta").load(str(lake.table(silver.TABLE.upstream[0])))

    def texts(parse: Parse) -> list[str]:
        rows = parse(events, OF_MANY_TYPES)
        chosen = [F.col(key).alias(str(number)) for number, key in enumerate(KEYS)]
        made = [F.coalesce("text", "plain.name").alias("made"), F.upper("text").alias("upper")]
        root = tree(str(planned(rows.select(*chosen, *made), "Append").optimizedPlan().toJSON()))
        found = columns(root, iter(["bronze.device_telemetry"]))[id(root)]
        return [found.texts[each] for each in found.ids]

    assert texts(parse_json) == texts(wrapped_json.parse_json)


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
