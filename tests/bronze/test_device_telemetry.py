"""Bronze is as received."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fleet.bronze.device_telemetry import TABLE
from fleet.silver import device_telemetry as silver
from strandline.core.topic import IDENTITY, ORDER, RECEIVED
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from tests.support.events import TOPIC, Event, frame, received
from tests.support.rows import NOON


def test_it_reads_both_topics_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["device-telemetry", "device-telemetry-v1"]
    assert silver.TABLE.reads == (TABLE,)


@pytest.mark.whole
def test_identity_and_order_are_columns_of_every_bronze_table() -> None:
    """Silver, quarantine and replay all need them."""
    assert isinstance(RECEIVED, StructType)
    assert {*IDENTITY, *ORDER} <= {*RECEIVED.fieldNames()}
    assert all(name.startswith("_") for name in RECEIVED.fieldNames())


@pytest.mark.whole
def test_any_bytes_are_kept_as_they_came(spark: SparkSession, lake: Lake) -> None:
    """A payload that is no text today is tomorrow's evidence."""
    payloads = [b"\x00\xff\xfe", b"", None, b'{"a": 1}']

    create_table.create(spark, lake.table(TABLE), RECEIVED, properties=PROPERTIES)
    commit = delta_commit.Commit(spark, lake.table(TABLE))
    commit.write(frame(spark, [Event(payload=payload) for payload in payloads]))
    commit.commit("")

    kept = spark.read.format("delta").load(str(lake.table(TABLE))).orderBy("_offset").collect()
    assert [None if row["_payload"] is None else bytes(row["_payload"]) for row in kept] == payloads


def test_literal_events_have_the_ledger_entries_of_events_from_kafka(lake: Lake) -> None:
    """All tests of silver and gold rest on this helper; its offsets must have no gap."""
    events = [Event(payload=b"x", batch=b, partition=p) for b in (1, 2) for p in (0, 0, 3)]

    received(lake, events)

    found = [entry for _, entry in entries(lake.table(TABLE))]
    assert [dict(entry.offsets) for entry in found] == [
        {f"{TOPIC}/0": (0, 2), f"{TOPIC}/3": (0, 1)},
        {f"{TOPIC}/0": (2, 4), f"{TOPIC}/3": (1, 2)},
    ]
    assert [entry.batch for entry in found] == [0, 1]
    assert NOON.tzinfo is not None


@pytest.mark.whole
def test_literal_events_are_written_as_spark_would_write_them(
    spark: SparkSession, lake: Lake
) -> None:
    """To the column, the statistic and the checksum: without the last, Delta computes it by a job at each reading."""
    events = [
        Event(payload=b"x", partition=1, arrived_at=NOON + timedelta(microseconds=1_999)),
        Event(payload=None, arrived_at=NOON + timedelta(days=365 * 7900)),
    ]
    (entry,) = received(lake, events)
    by_hand = lake.table(TABLE)

    by_spark = lake.root / "by spark"
    create_table.create(spark, by_spark, RECEIVED, properties=PROPERTIES)
    commit = delta_commit.Commit(spark, by_spark)
    commit.write(spark.read.format("delta").load(str(by_hand)).coalesce(1))
    commit.commit(entry.encoded())

    assert recorded(by_hand.local) == recorded(by_spark.local)


SAME = ("operation", "isolationLevel", "isBlindAppend", "userMetadata")
SUMS = ("numFiles", "numMetadata", "numProtocol", "setTransactions", "domainMetadata", "protocol")


def recorded(path: Path) -> list[object]:
    """Return log and checksums of a table, without names, sizes and moments."""
    found: list[object] = []
    for version in range(2):
        file = path / "_delta_log" / f"{version:020d}.json"
        actions: dict[str, Any] = {}
        for line in file.read_text().splitlines():
            actions |= json.loads(line)
        info, sums = actions["commitInfo"], json.loads(file.with_suffix(".crc").read_text())
        metadata = sums["metadata"]
        files = [actions["add"]] if "add" in actions else []
        assert sums["txnId"] == info["txnId"]
        assert sums["tableSizeBytes"] == sum(each["size"] for each in files)
        assert [each["path"] for each in sums["allFiles"]] == [each["path"] for each in files]
        assert actions.get("metaData", metadata) == metadata
        found += [
            {name: info.get(name) for name in SAME},
            {name: sums[name] for name in SUMS},
            {name: metadata[name] for name in ("format", "partitionColumns", "configuration")},
            json.loads(metadata["schemaString"]),
            [(each["partitionValues"], each["dataChange"]) for each in files],
            [json.loads(each["stats"]) for each in files],
            [columns(path / each["path"]) for each in files],
        ]
    return found


def columns(file: Path) -> list[tuple[str, str]]:
    """Return the columns of a file with their physical types."""
    schema = ParquetFile(file).schema
    return [(each.path, each.physical_type) for each in map(schema.column, range(len(schema)))]
