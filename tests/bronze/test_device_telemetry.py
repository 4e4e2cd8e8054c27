"""Bronze is as received."""

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs.bronze.device_telemetry import TABLE
from jobs.core.received import IDENTITY, ORDER, RECEIVED
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import entries
from jobs.silver import device_telemetry as silver
from tests.support.events import TOPIC, Event, received
from tests.support.modes import proven
from tests.support.rows import NOON


def test_it_reads_both_topics_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["device-telemetry", "device-telemetry-v1"]
    assert silver.TABLE.reads == (TABLE,)


def test_identity_and_order_are_columns_of_every_bronze_table() -> None:
    """Silver, quarantine and replay all need them."""
    assert isinstance(RECEIVED, StructType)
    assert {*IDENTITY, *ORDER} <= {*RECEIVED.fieldNames()}
    assert all(name.startswith("_") for name in RECEIVED.fieldNames())


def test_any_bytes_are_kept_as_they_came(spark: SparkSession, lake: Lake) -> None:
    """A payload that is no text today is tomorrow's evidence."""
    payloads = [b"\x00\xff\xfe", b"", None, b'{"a": 1}']

    received(spark, lake, [Event(payload=payload) for payload in payloads])

    kept = spark.read.format("delta").load(str(lake.table(TABLE))).orderBy("_offset").collect()
    assert [None if row["_payload"] is None else bytes(row["_payload"]) for row in kept] == payloads
    assert proven(lake, ())


def test_literal_events_have_the_ledger_entries_of_events_from_kafka(
    spark: SparkSession, lake: Lake
) -> None:
    """All tests of silver and gold rest on this helper; its offsets must have no gap."""
    events = [Event(payload=b"x", batch=b, partition=p) for b in (1, 2) for p in (0, 0, 3)]

    received(spark, lake, events)

    found = [entry for _, entry in entries(lake.table(TABLE))]
    assert [dict(entry.offsets) for entry in found] == [
        {f"{TOPIC}/0": (0, 2), f"{TOPIC}/3": (0, 1)},
        {f"{TOPIC}/0": (2, 4), f"{TOPIC}/3": (1, 2)},
    ]
    assert [entry.batch for entry in found] == [0, 1]
    assert NOON.tzinfo is not None
