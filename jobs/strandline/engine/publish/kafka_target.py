"""A topic of Kafka as a target: each batch is a transaction of Kafka, in which the position is kept as well.

So a reader with ``isolation.level=read_committed`` sees each change exactly once, whatever was killed when. The position is
committed as that of a group of consumers, in the metadata of its offset; Kafka drops it seven days after the last one, and
then that of the lake is as good, because it was written after it. Who begins takes the transactions over: a former
publisher that still lives is refused by the broker.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.kafka.admin import JAVA_ONLY, topics
from strandline.engine.kafka.topic_log import admin, consumer
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.publish.books import Position, position
from strandline.engine.publish.declared import Change
from strandline.engine.publish.target import Refused, as_json

WITHIN = 30.0
"""Seconds within which the cluster must answer."""
MOST = 1_000_000
"""Bytes of a record, where the cluster does not say what a topic takes."""
FRAME = 512
"""Bytes that a record may need beside its key, value and headers: its frame in a batch, and that of the batch."""
Headers: TypeAlias = list[tuple[str, str | bytes | None]]
STARTING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
TAKEN_OVER = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001  # public, though so named
)


class ToKafka:
    """A topic."""

    def __init__(
        self, topic: str, id_: str, locate: Callable[[], str], options: Mapping[str, str]
    ) -> None:
        """Connect to nothing yet.

        Args:
            topic: The topic.
            id_: The name of the transactions, and of the group that keeps the position.
            locate: Returns where Kafka is.
            options: Properties of its client.
        """
        self._topic, self._id, self._locate = topic, id_, locate
        self._options = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._most = MOST
        self._is_empty = False

    @property
    def loses_positions(self) -> bool:
        """Return whether the topic has had records: Kafka drops an old position alone, and that of a topic which was made anew."""
        return not self._is_empty

    def begin(self) -> Position | None:
        """Take the transactions over, and return the position that the last one kept.

        Raises:
            DefinitionError: There is no such topic.
        """
        address = self._locate()
        self._most = limit(address, self._options, self._topic)
        with _understood(self._topic):
            self._producer = Producer(
                {
                    "compression.type": "lz4",
                    **self._options,
                    "bootstrap.servers": address,
                    "transactional.id": self._id,
                    "partitioner": "murmur2_random",  # Java's client makes the same choice
                    # The broker's limit is one of a batch of records.
                    "message.max.bytes": self._most,
                    "batch.size": min(self._most, MOST),
                    "log_level": 0,
                }
            )
            self._producer.init_transactions(WITHIN)
            self._group = consumer(address, self._options, **{"group.id": self._id})
            found = _kept(self._group, TopicPartition(self._topic, 0))
            self._is_empty = found.offset < 0 and self._has_no_record(self._group)
        return position(found.metadata) if found.offset >= 0 and found.metadata else None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:  # noqa: ARG002  # a topic forgets nothing
        """Send changes in a new transaction, without those that are too large for the topic."""
        refused: dict[str, str] = {}
        failures: list[KafkaError] = []

        def heard(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        with _understood(self._topic):
            self._open.begin_transaction()
            for each in changes:
                key, value, headers = _record(each)
                size = len(key) + len(value or b"") + sum(len(k) + len(v or "") for k, v in headers)
                if size + FRAME > self._most:
                    refused[each.id] = (
                        f"too large: {size:,} bytes, and the topic takes {self._most:,}"
                    )
                else:
                    self._produce(key, value, headers, heard)
            left = self._open.flush(WITHIN)
        if left or failures:
            raise _away(self._topic, failures[0] if failures else "no answer")
        return refused

    def keep(self, place: Position) -> None:
        """Commit the transaction, with the position in it."""
        kept = TopicPartition(self._topic, 0, place.read, place.text())
        group = self._group
        assert group is not None  # it has begun  # noqa: S101
        with _understood(self._topic):
            self._open.send_offsets_to_transaction([kept], group.consumer_group_metadata(), WITHIN)
            self._open.commit_transaction(WITHIN)

    def close(self) -> None:
        """Leave a transaction that is open: the broker aborts it when it is taken over, or after a minute."""
        if self._producer is not None:
            self._producer.purge()
        if self._group is not None:
            self._group.close()
        self._producer = self._group = None

    def _has_no_record(self, group: Consumer) -> bool:
        """Return whether no record was ever written to the topic."""
        parts = group.list_topics(self._topic, WITHIN).topics[self._topic].partitions
        ends = (group.get_watermark_offsets(TopicPartition(self._topic, each)) for each in parts)
        return not any(ends_at for _, ends_at in ends)

    @property
    def _open(self) -> Producer:
        assert self._producer is not None  # it has begun  # noqa: S101
        return self._producer

    def _produce(
        self,
        key: bytes,
        value: bytes | None,
        headers: Headers,
        heard: Callable[[KafkaError | None, Message], None],
    ) -> None:
        while True:
            try:
                self._open.produce(self._topic, value, key, headers=headers, on_delivery=heard)
            except BufferError:  # its queue is full
                self._open.poll(0.1)
            else:
                self._open.poll(0)
                return


def limit(address: str, options: Mapping[str, str], topic: str) -> int:
    """Return how large a record of a topic may be.

    Raises:
        DefinitionError: There is no such topic.
    """
    if topic not in topics(address, options):
        raise DefinitionError(
            f"topic {topic} does not exist at {address}, and rows are published to it",
            hint="ask the operator of the cluster for it, or correct the name of the KafkaTopic.",
            topic=topic,
        )
    client = admin(address, options)  # as long as it lives, it answers
    asked = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = client.describe_configs([asked])[asked].result(WITHIN)
    except (KafkaException, TimeoutError):  # this client may not ask
        return MOST
    return int(found["max.message.bytes"].value)


def _kept(group: Consumer, part: TopicPartition) -> TopicPartition:
    """Return what a group has kept of a partition; a broker that has just started answers soon."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            return group.committed([part], timeout=WITHIN)[0]
        except KafkaException as error:
            if error.args[0].code() not in STARTING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _record(change: Change) -> tuple[bytes, bytes | None, Headers]:
    """Return key, value and headers of the record of a change."""
    headers: dict[str, str | bytes | None] = {
        "id": change.id,
        "op": "delete" if change.row is None else "upsert",
        "table": change.table,
        "generation": str(change.generation),
        "version": str(change.version),
    }
    value = None if change.row is None else as_json(change.row)
    return as_json(change.key), value, [*headers.items()]


@contextmanager
def _understood(topic: str) -> Iterator[None]:
    """Say what an error of the client means.

    Raises:
        FencedError: Another process has taken the transactions over.
        TransientError: The cluster is away, or refuses.
    """
    try:
        yield
    # Where a fatal error meets a callback of the client, Python says so by an error of its own about it.
    except (KafkaException, SystemError) as error:
        cause = error if isinstance(error, KafkaException) else error.__cause__ or error.__context__
        if not isinstance(cause, KafkaException):
            raise
        raise _away(topic, cause.args[0]) from error


def _away(topic: str, reason: KafkaError | str) -> TransientError | FencedError:
    if isinstance(reason, KafkaError) and reason.code() in TAKEN_OVER:
        return FencedError(
            f"another process publishes to topic {topic} now",
            hint="let the other go on; it has begun where this one was.",
        )
    said = reason if isinstance(reason, str) else reason.str()
    return TransientError(
        f"topic {topic} does not take the records: {said}",
        hint="see that its broker runs, and that this client may write to it, in transactions.",
        topic=topic,
    )
