"""silver.dhcp_events has the events that are whole, of the declared types, in time and no copies."""

import pytest
from pyspark.sql import SparkSession

from fleet.silver.dhcp_events import TABLE
from tests.support.read import read
from tests.support.sources import judged_as_the_truth

CLEAN = b'{"dhcp_id": "x1", "kind": "ack", "mac": "02:00:00:00:00:2a", "device_id": "d1", "ip": "10.20.0.42", "lease_seconds": 7200, "event_at": "2026-11-20T08:15:30Z"}'


@pytest.mark.whole
def test_a_clean_payload_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a name that was mixed up is seen."""
    (row,) = read(spark, TABLE, CLEAN)

    assert row == {
        "_problem": "-",
        "dhcp_id": "x1",
        "kind": "ack",
        "mac": "02:00:00:00:00:2a",
        "device_id": "d1",
        "ip": "10.20.0.42",
        "lease_seconds": "7200",
        "event_at": "08:15:30",
    }


def test_every_kind_of_dirt_gets_its_reason(spark: SparkSession) -> None:
    """To the last event, against code that shares nothing with the table."""
    assert judged_as_the_truth(spark, TABLE)
