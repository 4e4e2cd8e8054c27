"""The loop that a good engineer writes in Python: librdkafka reads, msgspec parses, delta-rs commits, Polars summarises.

Offsets are application transactions of the commit, so a second start goes on where the last commit ended. The copies that it
looks for are in a dictionary of the last 75 minutes of event time; partitions are not consumed in step, so it forgets by the
slowest of them: by the fastest it let copies through, which the truth showed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import __version__ as version

from tests.benchmarks.contestants import polars_batch
from tests.benchmarks.contestants.contestant import BRONZE, SILVER, Place, Stop
from tests.benchmarks.contestants.polars_batch import ZSTD

BATCH = 100_000
LATE, EARLY, KEPT = 3_600.0, 300.0, 4_500.0
"""Seconds: as the engine's table declares, and how long a copy is looked for."""
MANY = 400_000
"""Ids in the dictionary, from which on old ones are forgotten."""
PLAUSIBLE = {
    "temperature": (-90, 150),
    "humidity": (0, 100),
    "battery": (0, 100),
    "pressure": (300, 1200),
    "vibration": (0, 1000),
}
SETTINGS = {
    "group.id": "delta-rs",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.message.max.bytes": 8 << 20,
    "queued.min.messages": 200_000,
    "fetch.wait.max.ms": 5,
}
ARRIVAL = pa.timestamp("us", "UTC")


class Meta(msgspec.Struct, gc=False):
    """A part of a reading."""

    firmware: str | None = None
    seq: int | None = None


class Reading(msgspec.Struct, gc=False):
    """A payload."""

    event_id: str | None = None
    device_id: str | None = None
    signal: str | None = None
    value: float | None = None
    event_at: datetime | None = None
    meta: Meta | None = None


read = msgspec.json.Decoder(Reading).decode
read_any = msgspec.json.Decoder().decode


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
            **_identity(records),
            **_content(records),
        }
        _append(place.table(BRONZE), rows, commit)


@dataclass(slots=True)
class _Seen:
    """The ids of the readings so far, as long as a copy may come."""

    ids: dict[str, float] = field(default_factory=dict)
    newest: dict[int, float] = field(default_factory=dict)

    def is_copy(self, reading: Reading, at: float, partition: int) -> bool:
        if reading.event_id in self.ids:
            return True
        self.ids[reading.event_id or ""] = at
        self.newest[partition] = max(at, self.newest.get(partition, 0.0))
        return False

    def forget(self) -> None:
        if len(self.ids) > MANY:
            bound = min(self.newest.values()) - KEPT
            self.ids = {each: at for each, at in self.ids.items() if at >= bound}


def _clean(place: Place) -> None:
    seen = _Seen()
    for records, commit in _batches(place, place.table(SILVER)):
        good: list[tuple[Message, Reading]] = []
        held: list[tuple[Message, str]] = []
        for record in records:
            reading, reason = _judged(record)
            if reading is None or reason is not None:
                held.append((record, reason or "malformed"))
            elif not seen.is_copy(reading, reading.event_at.timestamp(), record.partition()):  # type: ignore[union-attr]  # it has one
                good.append((record, reading))
        seen.forget()
        if held:
            of = [record for record, _ in held]
            reasons = {"reason": pa.array([reason for _, reason in held])}
            _append(place.quarantine, {**_identity(of), **reasons, **_content(of)}, commit)
        _append(place.table(SILVER), _rows(good), commit)


def _judged(record: Message) -> tuple[Reading | None, str | None]:
    """Return a reading, or why the record is none."""
    payload = record.value() or b""
    try:
        reading = read(payload)
    except msgspec.ValidationError:
        return None, _is_json(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, "malformed"
    for name in ("event_id", "device_id", "signal", "value", "event_at"):
        if getattr(reading, name) is None:
            return None, f"missing:{name}"
    low, high = PLAUSIBLE.get(reading.signal or "", (float("-inf"), float("inf")))
    if not low <= (reading.value or 0.0) <= high:
        return None, "implausible:value"
    happened, arrived = reading.event_at.timestamp(), record.timestamp()[1] / 1000  # type: ignore[union-attr]  # it has one
    if happened < arrived - LATE:
        return None, "late"
    return (None, "early") if happened > arrived + EARLY else (reading, None)


def _is_json(payload: bytes) -> str:
    """Return the reason of a payload that has a field of another type, which may be no JSON behind it."""
    try:
        return "wrong_type" if isinstance(read_any(payload), dict) else "malformed"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "malformed"


def _rows(good: Sequence[tuple[Message, Reading]]) -> dict[str, pa.Array]:
    readings = [reading for _, reading in good]
    metas = [reading.meta or Meta() for reading in readings]
    values = pa.array([each.value for each in readings], pa.float64())
    return {
        "event_id": pa.array([each.event_id for each in readings]),
        "device_id": pa.array([each.device_id for each in readings]),
        "signal": pa.array([each.signal for each in readings]),
        "value": values.cast(pa.decimal128(14, 4)),
        "event_at": pa.array([each.event_at for each in readings], ARRIVAL),
        "firmware": pa.array([each.firmware for each in metas], pa.string()),
        "seq": pa.array([each.seq for each in metas], pa.int64()),
        **_identity([record for record, _ in good]),
    }


def _identity(records: Sequence[Message]) -> dict[str, pa.Array]:
    arrivals = [record.timestamp()[1] * 1000 for record in records]
    return {
        "_partition": pa.array([record.partition() for record in records], pa.int32()),
        "_offset": pa.array([record.offset() for record in records], pa.int64()),
        "_arrived_at": pa.array(arrivals, ARRIVAL),
    }


def _content(records: Sequence[Message]) -> dict[str, pa.Array]:
    return {
        "_message_key": pa.array([record.key() for record in records], pa.binary()),
        "_payload": pa.array([record.value() for record in records], pa.binary()),
    }


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
