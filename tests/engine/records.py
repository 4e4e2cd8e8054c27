"""Records in Kafka exactly as a test wants them: partition, time, value, inside a transaction or not."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from secrets import token_hex

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from strandline.core.topic import Topic

NOON = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
HOUR = 3_600_000

Record = tuple[int, int]
"""The partition, and the milliseconds after noon at which the record arrived."""


# Kept: a client that ends beside its answer ends the process at times [confluent-kafka 2.16].
@lru_cache(maxsize=8)
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def make(address: str, topic: Topic, config: Mapping[str, str] | None = None) -> None:
    """Make the topic and wait for it."""
    new = NewTopic(topic.name, num_partitions=topic.partitions, config=dict(config or {}))
    client = admin(address)
    client.create_topics([new])[topic.name].result(20)


def drop(address: str, topic: Topic) -> None:
    """Delete the topic and wait until it is gone."""
    client = admin(address)
    client.delete_topics([topic.name])[topic.name].result(20)
    while topic.name in client.list_topics(timeout=10).topics:
        client.poll(0.05)


def expire(address: str, topic: Topic, partition: int, before: int) -> None:
    """Let the records of a partition before an offset go, as retention does."""
    client = admin(address)  # it answers only as long as it is referenced
    part = TopicPartition(topic.name, partition, before)
    for deleted in client.delete_records([part]).values():
        deleted.result(20)


def put(address: str, topic: Topic, records: Iterable[Record], *, key: str | None = None) -> None:
    """Send records in order, each on its own, so that the broker's time index knows each of them."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 0})
    _send(producer, topic, records, key)
    producer.flush(20)


def put_transactions(address: str, topic: Topic, sizes: Sequence[int]) -> None:
    """Send transactions of so many records to partition 0; those of a negative size are aborted."""
    producer = transactional(address)
    for size in sizes:
        producer.begin_transaction()
        _send(producer, topic, [(0, number) for number in range(abs(size))], None)
        producer.flush(20)
        if size > 0:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)


def transactional(address: str) -> Producer:
    """Return a producer that may begin a transaction."""
    producer = Producer(
        {"bootstrap.servers": address, "log_level": 0, "transactional.id": token_hex(4)}
    )
    producer.init_transactions(20)
    return producer


def _send(producer: Producer, topic: Topic, records: Iterable[Record], key: str | None) -> None:
    for number, (partition, millisecond) in enumerate(records):
        arrived_at = NOON + timedelta(milliseconds=millisecond)
        producer.produce(
            topic.name,
            f"{partition}/{number}".encode(),
            key,
            partition=partition,
            timestamp=int(arrived_at.timestamp() * 1000),
        )
        if number % 500 == 499:
            producer.flush(20)
