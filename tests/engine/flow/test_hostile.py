"""Two thousand hostile payloads: no stream fails, and every byte is kept in silver or in the quarantine."""

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.bronze import process_events as bronze
from fleet.silver import process_events as silver
from strandline.core.stateful import AvailableNow
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from tests.engine.records import drop, make
from tests.support.hostile import MOMENT, Hostile, hostile

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole]

(TOPIC,) = bronze.TABLE.topics
COUNT, SEED = 2_000, 20_261_122
MOST = str(16 << 20)


@pytest.fixture
def sent(kafka: str) -> Iterator[dict[tuple[int, int], Hostile]]:
    """Send all payloads, and return each by its partition and offset."""
    make(kafka, TOPIC, {"max.message.bytes": MOST})
    producer = Producer(
        {"bootstrap.servers": kafka, "log_level": 0, "message.max.bytes": MOST, "linger.ms": 5}
    )
    at = int(datetime.fromisoformat(MOMENT).timestamp() * 1000)
    places = {}
    for number, each in enumerate(hostile(COUNT, SEED)):
        offset, partition = divmod(number, TOPIC.partitions)
        places[partition, offset] = each
        producer.produce(TOPIC.name, each.payload, partition=partition, timestamp=at)
        producer.poll(0)
    assert producer.flush(60) == 0
    yield places
    drop(kafka, TOPIC)


def test_every_hostile_payload_is_a_row_unchanged_or_in_the_quarantine_unchanged(
    spark: SparkSession,
    lake: Lake,
    kafka: str,
    clock: Callable[[], datetime],
    sent: dict[tuple[int, int], Hostile],
) -> None:
    """A payload that is no row never reaches silver; hostile text that is a row reaches it unchanged."""
    site = Site(spark=spark, clock=clock, address=kafka)
    for table in (bronze.TABLE, silver.TABLE):
        run(table, AvailableNow(max_offsets=1_000), lake, site=site)

    rows = {
        (r["_partition"], r["_offset"]): r["CommandLine"] for r in _rows(lake.table(silver.TABLE))
    }
    held = {
        (r["_partition"], r["_offset"]): r["_payload"] for r in _rows(lake.quarantine(silver.TABLE))
    }

    assert len(sent) == COUNT
    believed = {place: each.text for place, each in sent.items() if each.text is not None}
    refused = {place: each.payload for place, each in sent.items() if each.text is None}
    assert _unlike(rows, believed, sent) == []
    assert _unlike(held, refused, sent) == []
    assert len(believed) > COUNT // 4
    for table in (bronze.TABLE, silver.TABLE):
        assert balance(table, lake).balanced


def _rows(path: object) -> list[dict[str, object]]:
    return list(DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def _unlike(actual: dict, wanted: dict, sent: dict[tuple[int, int], Hostile]) -> list[object]:
    """Return some payloads that are in the wrong place, or changed."""
    places = [p for p in actual.keys() | wanted.keys() if actual.get(p, 0) != wanted.get(p, 0)]
    return [(p, sent[p].payload[:200], str(actual.get(p, "absent"))[:200]) for p in places[:5]]
