"""What a stream keeps is described for every table that may be declared."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.engine.accounting.balance_sheet import balance
from jobs.engine.pipeline.column_lineage import derive_lineage
from jobs.engine.storage.lake import Lake
from jobs.gold import device_signal_10m as gold
from jobs.silver import device_telemetry as silver
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS
from tests.support.modes import derive

pytestmark = pytest.mark.core


def test_a_key_may_have_the_event_time(spark: SparkSession, lake: Lake) -> None:
    """A scan of a parcel is known by the parcel and the moment."""
    table = replace(silver.TABLE, key=("event_id", "event_at"))
    received(lake, readings(EVENTS))

    derive(spark, lake, table)

    assert balance(table, lake).balanced


def by_sql(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.sql("SELECT * FROM {rows}", rows=rows)


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
