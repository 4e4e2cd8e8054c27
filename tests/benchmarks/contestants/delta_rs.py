"""The loop that a good engineer writes in Python: librdkafka reads, msgspec parses, delta-rs commits, Polars summarises.

Offsets are application transactions of the commit, so a second start goes on where the last commit ended. The copies that it
looks for are in a dictionary of the last 75 minutes of event time; partitions are not consumed in step, so it forgets by the
slowest of them: by the fastest it let copies through, which the truth showed.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import __version__ as version

from tests.benchmarks.contestants import polars_batch
from tests.benchmarks.contestants.contestant import BRONZE, SILVER, Place, Stop
from tests.benchmarks.contestants.polars_batch import ZSTD
from tests.benchmarks.contestants.python.readings import (
    Item,
    Met,
    Seen,
    good_columns,
    held_columns,
    judged,
    raw_columns,
)

BATCH = 100_000
SETTINGS = {
    "group.id": "delta-rs",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.message.max.bytes": 8 << 20,
    "queued.min.messages": 200_000,
    "fetch.wait.max.ms": 5,
}


class DeltaRs:
    """The loop, a table after the other."""

    def begin(self, log: Path) -> dict[str, str]:  # noqa: ARG002  # it logs nothing
        """Start nothing: these are libraries."""
        return {"deltalake": version, "msgspec": msgspec.__version__}

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Bring tables to where the topic ends; the windows are those of all readings."""
        for name in names:
            match name:
                case "bronze.device_telemetry":
                    _ingest(place)
                case "silver.device_telemetry":
                    _clean(place)
                case "gold.device_signal_10m":
                    polars_batch.windows(place)

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Refuse: it is measured to the end of a topic."""
        raise NotImplementedError(names, place)


def _ingest(place: Place) -> None:
    for records, commit in _batches(place, place.table(BRONZE)):
        rows = {
            "_topic": pa.array([place.topic] * len(records)),
            **raw_columns([_met(record) for record in records]),
        }
        _append(place.table(BRONZE), rows, commit)


def _clean(place: Place) -> None:
    seen = Seen()
    for records, commit in _batches(place, place.table(SILVER)):
        good: list[Item] = []
        held: list[Item] = []
        for record in records:
            item = judged(_met(record))
            if item.reason is not None:
                held.append(item)
            elif not seen.is_copy(item):
                good.append(item)
        seen.forget()
        if held:
            _append(place.quarantine, held_columns(held), commit)
        _append(place.table(SILVER), good_columns(good), commit)


def _met(record: Message) -> Met:
    return Met(
        record.partition(),
        record.offset(),
        record.timestamp()[1],
        record.key(),
        record.value() or b"",
    )


def _append(table: str, columns: dict[str, pa.Array], commit: CommitProperties) -> None:
    write_deltalake(
        table, pa.table(columns), mode="append", commit_properties=commit, writer_properties=ZSTD
    )


def _batches(place: Place, table: str) -> Iterator[tuple[list[Message], CommitProperties]]:
    """Yield records from where a table's last commit ended to where the topic ends now."""
    consumer = Consumer({"bootstrap.servers": place.address, **SETTINGS})
    topic = place.topic
    partitions = sorted(consumer.list_topics(topic).topics[topic].partitions)
    known = DeltaTable(table) if DeltaTable.is_deltatable(table) else None
    at = {
        each: (known.transaction_version(f"{topic}-{each}") or 0) if known else 0
        for each in partitions
    }
    ends = {
        each: consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in partitions
    }
    consumer.assign([TopicPartition(topic, each, at[each]) for each in partitions])
    try:
        while missing := sum(ends[each] - at[each] for each in partitions):
            records: list[Message] = []
            while len(records) < min(BATCH, missing):
                found = consumer.consume(min(10_000, BATCH - len(records)), 1.0)
                records += [each for each in found if each.offset() < ends[each.partition()]]
            for each in records:
                at[each.partition()] = max(at[each.partition()], each.offset() + 1)
            marks = [Transaction(f"{topic}-{each}", offset) for each, offset in at.items()]
            yield records, CommitProperties(app_transactions=marks)
    finally:
        consumer.close()
