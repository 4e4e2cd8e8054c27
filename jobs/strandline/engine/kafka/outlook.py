"""How long Kafka keeps what a reader has not read yet, partition by partition."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin._config import ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from strandline.core.topic import Topic
from strandline.engine.kafka import admin
from strandline.engine.kafka.admin import PATIENCE, Cluster
from strandline.engine.kafka.slices import Backlog, Part, Positions
from strandline.engine.kafka.topic_log import consumer, number_in_kafka
from strandline.engine.lake.commit.file_index import EPOCH

# When the records were written that a reader reads next: one record of each partition, found by its offset.
#
# Kafka has no question for the time of an offset, so the record itself is read, with all partitions at once and a limit on the
# whole wait. A record at a position may be a marker, or aborted; then the next one counts.


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


# For how long a topic keeps its records, as its cluster's configuration has it.
#
# Kafka removes whole segments, and a segment once its newest record is older than ``retention.ms``, or the partition is larger
# than ``retention.bytes``. So a record is gone at the earliest when it is older than that itself; how much later depends on
# segments, which no client can see. How large a partition is cannot be asked with this client either (confluent-kafka 2.16
# has no ``DescribeLogDirs``), so by size nothing is known.


FOR_GOOD = -1
"""What Kafka writes for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a topic keeps.

    Args:
        ms: The age at which a record may go; None for no such age.
        size: The bytes of a partition beyond which its oldest records go; None for no such limit.
        by_key: Whether it is compacted: of each key the newest record is kept, older ones may go unread.
        unknown: Why nothing is known.
    """

    ms: int | None = None
    size: int | None = None
    by_key: bool = False
    unknown: str = ""


def retentions(
    address: str, options: Mapping[str, str], topics: Iterable[str]
) -> dict[str, Retention]:
    """Return what each of some topics keeps; a topic that may not be described keeps something unknown."""
    client = Cluster(address, options).admin
    asked = {ConfigResource(ResourceType.TOPIC, name): name for name in sorted(set(topics))}
    if not asked:
        return {}
    found = client.describe_configs(list(asked), request_timeout=PATIENCE)
    return {name: _retention(found[resource]) for resource, name in asked.items()}


def _retention(answer: Future[dict[str, ConfigEntry]]) -> Retention:
    try:
        values = {name: entry.value for name, entry in answer.result(2 * PATIENCE).items()}
    except (KafkaException, TimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        return Retention(unknown=f"its configuration cannot be read: {why}")
    policies = {each.strip() for each in (values.get("cleanup.policy") or "delete").split(",")}
    deletes = "delete" in policies
    return Retention(
        ms=_limit(values.get("retention.ms")) if deletes else None,
        size=_limit(values.get("retention.bytes")) if deletes else None,
        by_key="compact" in policies,
    )


def _limit(text: str | None) -> int | None:
    value = FOR_GOOD if text is None else int(text)
    return None if value == FOR_GOOD else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What Kafka has of a partition for a reader, and until when at least.

    Args:
        part: The partition.
        read: The offset that is read next.
        first: The first offset that Kafka has.
        end: The offset after the last.
        retention: What the topic keeps.
        next_at: When the record was written that is read next; None where nothing is unread, or it did not come.
        unknown: Why there are no figures.
    """

    part: Part
    read: int
    first: int
    end: int
    retention: Retention
    next_at: datetime | None = None
    unknown: str = ""

    @property
    def unread(self) -> int:
        """Return how many offsets are unread and in Kafka."""
        return max(0, self.end - max(self.read, self.first))

    @property
    def lost(self) -> tuple[int, int] | None:
        """Return the first offset that is gone and was not read, and the one after the last; None where there is none."""
        return (self.read, self.first) if self.read < self.first else None

    @property
    def goes_at(self) -> datetime | None:
        """Return the earliest moment at which the next record may be removed for its age; None for never, or unknown."""
        if self.next_at is None or self.retention.ms is None:
            return None
        try:
            return self.next_at + timedelta(milliseconds=self.retention.ms)
        except OverflowError:  # kept for longer than there are years
            return None


def outlooks(
    address: str, options: Mapping[str, str], positions: Positions, wait: float = WAIT
) -> dict[Part, Outlook]:
    """Return the outlook of each partition of the topics that a reader reads.

    Args:
        address: Where Kafka is.
        options: Its client's options.
        positions: The offsets that are read next. A partition of these topics that is missing here begins with what
            Kafka has.
        wait: Seconds to wait for the next records.

    Raises:
        DefinitionError: The cluster refuses the client.
        TransientError: No broker answers.
    """
    names = {topic for topic, _ in positions}
    there = names & admin.topics(address, options).keys()
    log = Backlog(address, options, [Topic(name=name) for name in sorted(there)], positions)
    try:
        bounds = log.bounds()
    finally:
        log.close()
    kept = retentions(address, options, there)
    unread = {
        part: max(positions.get(part, first), first)
        for part, (first, end) in bounds.items()
        if end > max(positions.get(part, first), first)
    }
    asked = {(part[0], number_in_kafka(part)): at for part, at in unread.items()}
    came = written_at(address, options, asked, wait)
    times = {
        part: came[key] for part in unread if (key := (part[0], number_in_kafka(part))) in came
    }
    found = {
        part: Outlook(
            part=part,
            read=positions.get(part, first),
            first=first,
            end=end,
            retention=kept[part[0]],
            next_at=_moment(times.get(part)),
            unknown="" if part in times or part not in unread else "the next record did not come",
        )
        for part, (first, end) in bounds.items()
    }
    gone = {part: _gone(part, at) for part, at in positions.items() if part not in found}
    return {**found, **gone}


def _gone(part: Part, at: int) -> Outlook:
    why = "Kafka has no such partition"
    return Outlook(part=part, read=at, first=at, end=at, retention=Retention(), unknown=why)


def _moment(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # a time beyond the calendar (jobs/strandline/engine/flow/ingest.py)
        return None
