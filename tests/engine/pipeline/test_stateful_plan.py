"""What a stream keeps is described for every table that may be declared."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from jobs.engine.accounting.balance_sheet import balance
from jobs.engine.storage.lake import Lake
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
