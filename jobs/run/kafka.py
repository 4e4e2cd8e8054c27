"""What one topic of Kafka holds, asked with the C client, which starts no JVM."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from jobs.core.errors import DataError, DefinitionError, TransientError
from jobs.core.table import Topic

TIMEOUT = 10.0
PASSING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TRANSPORT,  # noqa: SLF001  # public, though so named
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""What a broker says, or does not say, while it starts; the client calls none of them retriable here."""
Positions = Mapping[int, int]
Answer = TypeVar("Answer")


class Log:
    """A topic as a reader of ranges sees it."""

    def __init__(self, address: str, options: Mapping[str, str], topic: Topic) -> None:
        """Connect; nothing is asked of the cluster yet."""
        self.address = address
        self.topic = topic
        self._options = options
        self._client = {
            "bootstrap.servers": address,
            "log_level": 0,
            **{k: v for k, v in options.items() if not k.startswith("ssl.truststore")},
        }
        self._consumer = Consumer(
            {
                **self._client,
                "group.id": "strandline",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": "true",
            }
        )

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def partitions(self) -> list[int]:
        """Return the topic's partitions.

        Raises:
            TransientError: The cluster does not answer.
            DefinitionError: The topic does not exist.
        """
        try:
            known = self._consumer.list_topics(self.topic.name, timeout=TIMEOUT)
        except KafkaException as error:
            raise self._silent(error) from error
        found = known.topics[self.topic.name]
        if found.error is not None or not found.partitions:
            raise DefinitionError(
                f"topic {self.topic.name} does not exist at {self.address}",
                hint="`strandline up` makes it on the lake's own broker; on another cluster, whoever runs that does. "
                "If it is there under another name, correct the topic of the table or STRANDLINE_KAFKA.",
                topic=self.topic.name,
            )
        return sorted(found.partitions)

    def identity(self) -> str:
        """Return the id that the cluster gave the topic; one made anew has another."""
        name = self.topic.name
        client = admin(self.address, self._options)  # must outlive its answer
        asked = client.describe_topics(TopicCollection([name]))
        try:
            return str(asked[name].result(timeout=TIMEOUT).topic_id)
        except TimeoutError as error:
            raise self._silent(KafkaException(KafkaError(KafkaError._TIMED_OUT))) from error  # noqa: SLF001  # as above
        except KafkaException as error:
            raise self._silent(error) from error

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return for each partition the first offset still there and the one after the last."""
        return self._patiently(
            lambda: {
                number: self._consumer.get_watermark_offsets(self._at(number), timeout=TIMEOUT)
                for number in self.partitions()
            }
        )

    def count(self, start: Positions, end: Positions) -> int:
        """Count the committed records between two positions by reading them, for as long as that gets on.

        Raises:
            TransientError: Kafka gave nothing for a while; what was counted so far is not the whole.
        """
        parts = [TopicPartition(self.topic.name, p, start[p]) for p in end if end[p] > start[p]]
        open_ends = {part.partition: end[part.partition] for part in parts}
        self._consumer.assign(parts)
        seen, moved_at, places = 0, time.monotonic(), list[int]()
        while open_ends:
            for message in self._consumer.consume(10_000, timeout=0.2):
                offset, part = message.offset(), message.partition()
                if message.error() is None and offset is not None and part is not None:
                    seen += offset < end.get(part, 0)
            reached = self._consumer.position(parts)
            for each in reached:
                if each.offset >= open_ends.get(each.partition, each.offset + 1):
                    del open_ends[each.partition]
            if places != (places := [each.offset for each in reached]):
                moved_at = time.monotonic()
            elif open_ends and time.monotonic() - moved_at > 6 * TIMEOUT:
                self._consumer.unassign()
                raise self._stopped(seen, open_ends)
        self._consumer.unassign()
        return seen

    def _stopped(self, seen: int, open_ends: Positions) -> TransientError:
        return TransientError(
            f"Kafka gave nothing more of topic {self.topic.name} after {seen:,} records, "
            f"short of the end of partition {' and '.join(map(str, sorted(open_ends)))}",
            hint="type the same again; if it stays so, look at the broker.",
            topic=self.topic.name,
            counted=seen,
            ends=dict(open_ends),
        )

    def offsets_at(self, moment: int, partitions: Sequence[int]) -> dict[int, int | None]:
        """Return where each partition first reaches a moment in milliseconds; None where nothing is as new."""
        asked = [TopicPartition(self.topic.name, p, moment) for p in partitions]
        found = self._patiently(lambda: self._consumer.offsets_for_times(asked, timeout=TIMEOUT))
        return {part.partition: part.offset if part.offset >= 0 else None for part in found}

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic.name, partition)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        # A topic that was just made has partitions before they have leaders, and so has a broker that was just
        # started again; a stream outlives both.
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise self._silent(error) from error
                time.sleep(0.1)

    def _silent(self, error: KafkaException) -> TransientError:
        return TransientError(
            f"no Kafka broker answers at {self.address}: {error.args[0].str()}",
            hint="start ours with `strandline up`, or correct STRANDLINE_KAFKA.",
            address=self.address,
        )


def check_positions(
    table: str,
    start: Mapping[tuple[str, int], int],
    bounds: Mapping[tuple[str, int], tuple[int, int]],
) -> None:
    """Refuse to read on when Kafka no longer holds what comes next.

    Raises:
        DataError: Records expired before they were read, or the topic was made anew.
    """
    for part, offset in start.items():
        topic, partition = part
        first, end = bounds.get(part, (0, 0))
        if offset > end:
            raise DataError(
                f"{table} has read partition {partition} of {topic} up to offset {offset}, "
                f"but the topic ends at {end}: it was made anew, or lost its end",
                hint="use another topic or another lake; its rows are not those that were read.",
                topic=topic,
                partition=partition,
            )
        if offset < first:
            raise DataError(
                f"{table}: offsets {offset} to {first - 1} of partition {partition} of {topic} "
                "expired in Kafka before they were read",
                hint="they are lost to this lake; raise the topic's retention and rebuild the table.",
                topic=topic,
                partition=partition,
            )


def java_options(options: Mapping[str, str]) -> dict[str, str]:
    """Translate the C client's security options for Spark's Java client."""
    translated = {f"kafka.{name}": value for name, value in options.items()}
    mechanism = translated.pop("kafka.sasl.mechanisms", None)
    if mechanism:
        translated["kafka.sasl.mechanism"] = mechanism
    user = translated.pop("kafka.sasl.username", None)
    password = translated.pop("kafka.sasl.password", None)
    if user is not None and password is not None:
        scram = translated.get("kafka.sasl.mechanism", "PLAIN").startswith("SCRAM")
        module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        translated["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{quoted}";'
        )
    authority = translated.pop("kafka.ssl.ca.location", None)
    if authority is not None:
        translated |= {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": authority,
        }
    return translated


def admin(address: str, options: Mapping[str, str]) -> AdminClient:
    """Connect as one who may ask about the cluster."""
    return AdminClient({"bootstrap.servers": address, "log_level": 0, **options})
