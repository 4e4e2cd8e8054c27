"""The strict parse in Python, and the columns of what it finds: by msgspec and Arrow, for loops and for frameworks in Python alike.

It is imported by peers in environments of their own (serve.py), so it imports nothing of the project.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec
import pyarrow as pa

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


class Met(NamedTuple):
    """A record: where it was in Kafka, its arrival in milliseconds, and its bytes."""

    partition: int
    offset: int
    arrived_ms: int
    key: bytes | None
    payload: bytes


class Item(NamedTuple):
    """A record with its reading, or with the reason why it is none."""

    met: Met
    reading: Reading | None
    reason: str | None


def judged(met: Met) -> Item:
    """Return a record with its reading, or with the first reason why it is none."""
    try:
        reading = read(met.payload)
    except msgspec.ValidationError:
        return Item(met, None, _is_json(met.payload))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Item(met, None, "malformed")
    return Item(met, reading, _fault(reading, met.arrived_ms / 1000))


def _fault(reading: Reading, arrived: float) -> str | None:
    for name in ("event_id", "device_id", "signal", "value", "event_at"):
        if getattr(reading, name) is None:
            return f"missing:{name}"
    low, high = PLAUSIBLE.get(reading.signal or "", (float("-inf"), float("inf")))
    if not low <= (reading.value or 0.0) <= high:
        return "implausible:value"
    happened = reading.event_at.timestamp()  # type: ignore[union-attr]  # it has one
    if happened < arrived - LATE:
        return "late"
    return "early" if happened > arrived + EARLY else None


def _is_json(payload: bytes) -> str:
    """Return the reason of a payload that has a field of another type, which may be no JSON behind it."""
    try:
        return "wrong_type" if isinstance(read_any(payload), dict) else "malformed"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "malformed"


@dataclass(slots=True)
class Seen:
    """The ids of the readings so far, as long as a copy may come."""

    ids: dict[str, float] = field(default_factory=dict)
    newest: dict[int, float] = field(default_factory=dict)

    def is_copy(self, item: Item) -> bool:
        """Return whether a reading was seen before, and remember it."""
        reading, partition = item.reading, item.met.partition
        assert reading is not None
        at = reading.event_at.timestamp()  # type: ignore[union-attr]  # it has one
        if reading.event_id in self.ids:
            return True
        self.ids[reading.event_id or ""] = at
        self.newest[partition] = max(at, self.newest.get(partition, 0.0))
        return False

    def forget(self) -> None:
        """Forget what no copy of may come any more, by the slowest partition."""
        if len(self.ids) > MANY:
            bound = min(self.newest.values()) - KEPT
            self.ids = {each: at for each, at in self.ids.items() if at >= bound}


def good_columns(good: Sequence[Item]) -> dict[str, pa.Array]:
    """Return the columns of readings."""
    readings = [item.reading for item in good if item.reading is not None]
    metas = [reading.meta or Meta() for reading in readings]
    values = pa.array([each.value for each in readings], pa.float64())
    return {
        "event_id": pa.array([each.event_id for each in readings], pa.string()),
        "device_id": pa.array([each.device_id for each in readings], pa.string()),
        "signal": pa.array([each.signal for each in readings], pa.string()),
        "value": values.cast(pa.decimal128(14, 4)),
        "event_at": pa.array([each.event_at for each in readings], ARRIVAL),
        "firmware": pa.array([each.firmware for each in metas], pa.string()),
        "seq": pa.array([each.seq for each in metas], pa.int64()),
        **_identity([item.met for item in good]),
    }


def held_columns(held: Sequence[Item]) -> dict[str, pa.Array]:
    """Return the columns of what is held back, each with its reason."""
    records = [item.met for item in held]
    reasons = {"reason": pa.array([item.reason for item in held], pa.string())}
    return {**_identity(records), **reasons, **_content(records)}


def raw_columns(records: Sequence[Met]) -> dict[str, pa.Array]:
    """Return the columns of records as they were received."""
    return {**_identity(records), **_content(records)}


def _identity(records: Sequence[Met]) -> dict[str, pa.Array]:
    arrivals = [record.arrived_ms * 1000 for record in records]
    return {
        "_partition": pa.array([record.partition for record in records], pa.int32()),
        "_offset": pa.array([record.offset for record in records], pa.int64()),
        "_arrived_at": pa.array(arrivals, ARRIVAL),
    }


def _content(records: Sequence[Met]) -> dict[str, pa.Array]:
    return {
        "_message_key": pa.array([record.key for record in records], pa.binary()),
        "_payload": pa.array([record.payload for record in records], pa.binary()),
    }
