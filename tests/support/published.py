"""What readers of committed records see in a topic."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from strandline.engine.kafka import broker

PATIENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A record."""

    key: bytes
    value: bytes | None
    headers: dict[str, str]


def committed(address: str, topic: str) -> list[Published]:
    """Return the committed records of a topic, to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    left = {*range(broker.topics(address, {})[topic])}
    consumer.assign([TopicPartition(topic, each, 0) for each in left])
    found, deadline = [], time.monotonic() + PATIENCE
    while left:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            left.discard(message.partition())
            continue
        headers = {name: value.decode() for name, value in message.headers()}
        found.append(Published(key=message.key(), value=message.value(), headers=headers))
    consumer.close()
    return found


def newest(records: Sequence[Published]) -> list[dict[str, Any]]:
    """Return the rows that a reader has who keeps of each key the newest record; one without a value takes its row away."""
    rows: dict[bytes, tuple[tuple[int, int], dict[str, Any] | None]] = {}
    for each in records:
        at = (int(each.headers["generation"]), int(each.headers["version"]))
        if each.key not in rows or rows[each.key][0] <= at:
            rows[each.key] = (at, None if each.value is None else json.loads(each.value))
    return [row for _, row in rows.values() if row is not None]
