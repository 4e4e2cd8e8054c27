"""When the records were written that a reader reads next: one record of each partition, found by its offset.

Kafka has no question for the time of an offset, so the record itself is read, with all partitions at once and a limit on the
whole wait. A record at a position may be a marker, or aborted; then the next one counts.
"""

import time
from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from strandline.engine.kafka.slices import Part, Positions
from strandline.engine.kafka.topic_log import consumer

WAIT = 5.0
"""Seconds for all partitions together."""


def written_at(
    address: str, options: Mapping[str, str], positions: Positions, wait: float = WAIT
) -> dict[Part, int]:
    """Return for each position the time of the record there, in milliseconds; those that did not come are left out."""
    if not positions:
        return {}
    # The broker returns one batch of records all the same; a look at hundreds of partitions needs no more.
    asks = consumer(address, options, **{"fetch.message.max.bytes": 1})
    try:
        return _first_of_each(asks, dict(positions), time.monotonic() + wait)
    finally:
        asks.close()


def _first_of_each(
    consumer: Consumer, positions: dict[Part, int], deadline: float
) -> dict[Part, int]:
    consumer.assign([TopicPartition(*part, offset) for part, offset in positions.items()])
    found: dict[Part, int] = {}
    wanted = set(positions)
    while wanted and time.monotonic() < deadline:
        for message in consumer.consume(1_000, timeout=0.1):
            part = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if part not in wanted or (error and error.code() != KafkaError._PARTITION_EOF):  # noqa: SLF001  # public, though so named
                continue
            kind, moment = message.timestamp()
            if error is None and kind != TIMESTAMP_NOT_AVAILABLE:
                found[part] = moment
            wanted.discard(part)
            consumer.incremental_unassign([TopicPartition(*part)])
    return found
