"""Send made-up records: the events of a play to Kafka, each with the time of its arrival, and those of a test to topics in memory.

Why not ``produce_batch``: confluent-kafka 2.16 has it, but refuses timestamps ("not currently supported in
batch mode"), and the arrival time is the record's timestamp.

Why no callback for a delivered event: at this rate it is the dearest thing in the process. The C client
reports failures only, the length of its queue of unacknowledged events shows how many are acknowledged, and
at the end the offsets of the topics must have grown by at least the number of events sent.

Measured on two cores with the broker on the same machine, three times a million events: 217,000 to 269,000
acknowledged events a second, 3.9 µs of CPU an event on this side; making the example's event takes 1.7 of them.
A broker killed with ``kill -9`` and started again within the patience cost no event and doubled none.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, repeat
from typing import TypeAlias
from uuid import uuid4

import confluent_kafka
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.topic import HEADERS, Played, Record, Records, Topic
from strandline.engine.kafka.broker import JAVA_ONLY
from strandline.engine.kafka.broker import topics as existing
from strandline.engine.kafka.slices import Backlog, Bounds, Part, Positions
from strandline.engine.runtime.processes import Interrupt

CHUNK = 8_192
"""The most records of a portion, between two looks at what was acknowledged."""

PATIENCE = 30.0
"""The seconds without an acknowledgement after which the broker counts as gone."""

SETTLED_WITHIN = 5.0
"""The seconds that the partitions of a new topic may take to elect their leaders."""

TICK = 0.05
"""The seconds between two portions of a run with a fixed rate."""

SPEED = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": "262144",
}
"""Defaults that a cluster's own options may override."""

ORDER = {
    "acks": "all",
    "enable.idempotence": "true",
    # Java's client makes the same choice, so a key stays in its partition with either client.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "log_level": 0,
}
"""What a play expects needs these: nothing lost, nothing twice, copies after their originals."""

Row: TypeAlias = tuple[str, bytes, bytes, int]
"""Topic, key, payload and timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The result of a run.

    Args:
        events: The number of records that the brokers have acknowledged.
        seconds: The time from the first event made to the last one acknowledged.
        topics: The number of records sent to each topic.
        is_whole: False if the run was interrupted before its end.
    """

    events: int
    seconds: float
    topics: Mapping[str, int]
    is_whole: bool


def at_once(rate: float | None) -> int:
    """Return how many records a play should make at a time: few where they are sent slowly.

    Raises:
        DefinitionError: There is no such rate.
    """
    if rate is None:
        return CHUNK
    if not rate > 0:
        raise DefinitionError(
            f"these events cannot be sent: rate must be above 0, not {rate}",
            hint="leave --rate out to send as fast as possible.",
        )
    return max(1, min(CHUNK, int(rate * TICK)))


def send_records(  # noqa: PLR0913  # one call that needs no preparation
    address: str,
    options: Mapping[str, str],
    topics: Sequence[Topic],
    records: Played,
    *,
    count: int,
    rate: float | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
    on_absent: Callable[[Topic], None],
) -> Sent:
    """Send the records of a play.

    The first Ctrl-C ends the run after the current portion, in good order; a second one at once.

    Args:
        address: host:port of a broker.
        options: Properties of the C client, such as ``security.protocol``.
        topics: The topics that the records may name.
        records: The records, the oldest first.
        count: How many they are about, for what is said when the broker goes away.
        rate: Events a second, whatever the broker could take; None is as fast as possible.
        on_progress: Called with the number of events acknowledged so far, several times a second.
        on_absent: Called before the first record of a topic that the cluster lacks; creates it, or refuses.

    Raises:
        DefinitionError: The address, an option or a topic is malformed or refused, or a record is none.
        TransientError: No broker answers, or it went away; ``acknowledged`` says how many events arrived.
        DataError: The topics have grown by less than what the broker acknowledged.
    """
    size = at_once(rate)
    has = existing(address, options)
    known = {topic.name: topic for topic in topics}
    absent = {name for name in known if name not in has}
    before = _ends(address, options, [each for each in topics if each.name in has])

    def demand(name: str) -> None:
        if name in absent:
            on_absent(known[name])
            absent.remove(name)

    with Interrupt() as interrupt:
        sending = _Sending(address, options, count, rate, on_progress)
        sent = sending.run(_portions(records, size, known, demand), interrupt)
    grown = _ends(address, options, [known[name] for name in known if name not in absent]) - before
    if grown < sent.events:
        raise DataError(
            f"{sent.events} events were acknowledged, but their topics have grown by {grown} only",
            hint="check whether a topic is compacted, expires old timestamps, or was created again.",
            acknowledged=sent.events,
            grown=grown,
        )
    return sent


@dataclass(frozen=True, slots=True)
class _Portion:
    """Records that are sent as a whole, so that an interrupt parts nothing that was made from what was sent."""

    rows: Iterable[Row]
    topics: Mapping[str, int]


def _portions(
    records: Played, size: int, known: Collection[str], demand: Callable[[str], None]
) -> Iterator[_Portion]:
    single: list[Row] = []
    for each in records:
        topic = _topic(each, known)
        demand(topic)
        if isinstance(each, Record):
            arrived_at = int(each.arrived_at.timestamp() * 1000)
            single.append((topic, each.key, each.value, arrived_at))
            if len(single) < size:
                continue
            yield _Portion(single, _by_topic(single))
        else:
            many = zip(repeat(topic), each.keys, each.values, each.arrived_at, strict=False)
            counts = _by_topic(single) + Counter({topic: len(each.values)})
            yield _Portion(chain(single, many), counts)
        single = []
    if single:
        yield _Portion(single, _by_topic(single))


def _topic(each: Record | Records, known: Collection[str]) -> str:
    if not isinstance(each, Record | Records):
        raise DefinitionError(
            f"the play yields {each!r}, which is no record",
            hint="let `events` yield strandline.Record, or strandline.Records for many at once.",
        )
    if each.topic not in known:
        raise DefinitionError(
            f"the play sends to the topic {each.topic}, which no table reads",
            hint=f"the topics of the tables are {', '.join(sorted(known))}.",
        )
    if isinstance(each, Records) and not len(each.keys) == len(each.values) == len(each.arrived_at):
        raise DefinitionError(
            f"the play yields {len(each.keys)} keys, {len(each.values)} payloads and {len(each.arrived_at)} times at once",
            hint="let each strandline.Records have as many of one as of the others.",
        )
    return each.topic


def _by_topic(rows: Iterable[Row]) -> Counter[str]:
    return Counter(topic for topic, *_ in rows)


@dataclass(slots=True)
class _Sending:
    """A run in progress."""

    address: str
    options: Mapping[str, str]
    count: int
    rate: float | None
    on_progress: Callable[[int], None]
    topics: Counter[str] = field(default_factory=Counter)
    handed_over: int = 0
    failed: int = 0
    complaint: str = "it stopped answering"
    acknowledged: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    producer: "confluent_kafka.Producer" = field(init=False)

    def __post_init__(self) -> None:
        own = {k: v for k, v in self.options.items() if not k.startswith(JAVA_ONLY)}
        self.producer = confluent_kafka.Producer(
            {
                **SPEED,
                **own,
                **ORDER,
                "bootstrap.servers": self.address,
                "on_delivery": self._on_failure,
                "error_cb": self._on_error,
            }
        )

    def run(self, portions: Iterator[_Portion], interrupt: Interrupt) -> Sent:
        begun = time.monotonic()
        portion: _Portion | None = _Portion((), {})
        try:
            while portion is not None:
                if self.rate is not None:
                    self._wait_until(begun + self.handed_over / self.rate, interrupt)
                if interrupt.asked:  # before more is made: a play counts what was taken from it
                    break
                portion = next(portions, None)
                if portion is not None:
                    self._hand_over(portion)
            while len(self.producer):
                self._look(0.1)
            self._look(0)  # the last ones may have left the queue since the last look
        except confluent_kafka.KafkaException as error:
            self.complaint = _words(error)
            raise self._gone() from error
        finally:
            # After a failure the client would go on trying for minutes while the process wants to end.
            self.producer.purge()
        return Sent(
            events=self.acknowledged,
            seconds=time.monotonic() - begun,
            topics=dict(self.topics),
            is_whole=portion is None,
        )

    def _hand_over(self, portion: _Portion) -> None:
        produce = self.producer.produce
        for topic, key, value, arrived_at in portion.rows:
            while True:
                try:
                    produce(topic, value, key, timestamp=arrived_at)
                except BufferError:
                    self._look(0.05)
                else:
                    break
        self.topics.update(portion.topics)
        self.handed_over += sum(portion.topics.values())
        self._look(0)

    def _wait_until(self, moment: float, interrupt: Interrupt) -> None:
        while (left := moment - time.monotonic()) > 0 and not interrupt.asked:
            self._look(min(left, 0.2))

    def _look(self, seconds: float) -> None:
        """Let the client work; raise when it has failed or makes no progress any more."""
        self.producer.poll(seconds)
        now = time.monotonic()
        waiting = len(self.producer)
        acknowledged = max(self.handed_over - waiting - self.failed, self.acknowledged)
        if acknowledged > self.acknowledged or not waiting:
            self.acknowledged, self.moved_at = acknowledged, now
            self.on_progress(acknowledged)
        if self.failed or now - self.moved_at > PATIENCE:
            raise self._gone()

    def _gone(self) -> TransientError:
        return TransientError(
            f"Kafka at {self.address} took at least {self.acknowledged} of {self.count} events, "
            f"then no more: {self.complaint}",
            hint="check that the broker runs (`strandline status`), then send to a new topic; "
            "in the same one, the events that had arrived would be counted as duplicates.",
            acknowledged=self.acknowledged,
            address=self.address,
        )

    def _on_failure(
        self, error: "confluent_kafka.KafkaError | None", _: "confluent_kafka.Message"
    ) -> None:
        if error is not None:
            self.failed += 1
            self.complaint = error.str()

    def _on_error(self, error: "confluent_kafka.KafkaError") -> None:
        self.complaint = error.str()


def _ends(address: str, options: Mapping[str, str], topics: Sequence[Topic]) -> int:
    """Return the sum of the end offsets of the topics."""
    log = Backlog(address, options, topics)
    try:
        return _end(log)
    finally:
        log.close()


def _end(log: Backlog) -> int:
    # For a moment after a topic was created its partitions may answer "not leader" (seen on a busy machine).
    deadline = time.monotonic() + SETTLED_WITHIN
    while True:
        try:
            return sum(end for _, end in log.bounds().values())
        except TransientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _words(error: "confluent_kafka.KafkaException") -> str:
    reason = error.args[0]
    return reason.str() if isinstance(reason, confluent_kafka.KafkaError) else str(reason)


# Topics in memory, in place of a broker's: records that a test sends, which bronze reads as those of Kafka.
#
# Bronze asks where a topic ends, which slice is next, and for its rows (jobs/strandline/engine/flow/ingest.py). Here these are
# answered; all else, entry and commit included, is what it does with a broker. A slice ends where the sender has cut, so the commits
# of bronze are the same whichever mode reads them later: disorder is measured from one commit to the next.

RECORD = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", HEADERS)
)
"""The columns of Spark's reader of Kafka that bronze takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record that was sent, and its place."""

    topic: str
    partition: int
    offset: int
    at: datetime
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def place(self) -> tuple[str, int, int]:
        """Return what identifies it in every table."""
        return self.topic, self.partition, self.offset


@dataclass(slots=True)
class GivenTopics:
    """The records of all topics of a test."""

    _topics: dict[str, Topic] = field(default_factory=dict)
    _logs: dict[Part, list[Given]] = field(default_factory=dict)
    _cuts: list[dict[Part, int]] = field(default_factory=list)
    _identity: str = field(default_factory=lambda: uuid4().hex)

    def know(self, topics: Iterable[Topic]) -> None:
        """Make topics that are not there yet."""
        for topic in topics:
            self._topics.setdefault(topic.name, topic)
            for number in range(self._topics[topic.name].partitions):
                self._logs.setdefault((topic.name, number), [])

    def send(  # noqa: PLR0913  # what a record has
        self,
        topic: str,
        value: bytes | None,
        *,
        at: datetime,
        partition: int = 0,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> Given:
        """Add a record; bronze sees it after the next cut.

        Raises:
            DefinitionError: The topic has no such partition.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            count = self._topics[topic].partitions
            raise DefinitionError(
                f"topic {topic} has the partitions 0 to {count - 1}, and none of the number {partition}",
                hint="name one of them, or leave partition= out.",
                topic=topic,
            )
        sent = Given(
            topic=topic,
            partition=partition,
            offset=len(log),
            at=at,
            key=key,
            value=value,
            headers=tuple((headers or {}).items()),
        )
        log.append(sent)
        return sent

    def cut(self) -> None:
        """Let what was sent since the last cut be one slice."""
        self._cuts.append(self.ends())

    def ends(self) -> dict[Part, int]:
        """Return the offset after the last record of each partition."""
        return {part: len(log) for part, log in self._logs.items()}

    def all(self) -> Iterator[Given]:
        """Yield every record, topic by topic."""
        for log in self._logs.values():
            yield from log

    def of(self, topics: Sequence[Topic]) -> "GivenLog":
        """Return the topics of one bronze table as one log."""
        self.know(topics)
        return GivenLog(self, tuple(topic.name for topic in topics))

    def cuts(self) -> Sequence[Mapping[Part, int]]:
        """Return where slices end, the first of them first."""
        return self._cuts

    def between(self, start: Positions, stops: Positions) -> Iterator[Given]:
        """Yield the records of some ranges."""
        for part, stop in sorted(stops.items()):
            yield from self._logs[part][start[part] : stop]

    def identity(self) -> str:
        """Return the id of these topics; those of another test have another."""
        return self._identity


@dataclass(frozen=True, slots=True)
class GivenLog:
    """The topics of one table, as bronze asks for them (``Backlog`` in jobs/strandline/engine/kafka/slices.py)."""

    given: GivenTopics
    topics: tuple[str, ...]

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return that every topic is on its first cluster."""
        return {}

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def identities(self) -> dict[str, str]:
        """Return the id of each topic."""
        return dict.fromkeys(self.topics, self.given.identity())

    def bounds(self) -> Bounds:
        """Return for each partition its first offset, and the end of the last slice."""
        cuts = self.given.cuts()
        last = cuts[-1] if cuts else {}
        return {
            part: (0, last.get(part, 0)) for part in self.given.ends() if part[0] in self.topics
        }

    def in_kafka(self, positions: Positions) -> Positions:
        """Return positions as they are."""
        return positions

    def slice(self, start: Positions, end: Positions, limit: int | None) -> dict[Part, int]:  # noqa: ARG002  # the shape of a broker's
        """Return the end of the next slice in which one of the topics has a record; nothing where there is none."""
        for cut in self.given.cuts():
            stops = {
                part: min(cut.get(part, 0), stop)
                for part, stop in end.items()
                if min(cut.get(part, 0), stop) > start[part]
            }
            if stops:
                return stops
        return {}

    def count(self, start: Positions, end: Positions) -> int:
        """Count the records between two positions."""
        return sum(1 for _ in self.given.between(start, end))

    def records(self, start: Positions, end: Positions) -> "Iterator[confluent_kafka.Message]":
        """Refuse: records with a time beyond the calendar are read so, and none can be sent here."""
        raise NotImplementedError(start, end)

    def read(self, spark: SparkSession, start: Positions, stops: Positions) -> DataFrame:
        """Return the records of some ranges with the columns of Spark's reader of Kafka.

        Arrow hands them to the plan itself: pickled rows would be an RDD, which a job of Python's serializer reads.
        """
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": each.at,
                "key": each.key,
                "value": each.value,
                "headers": [{"key": key, "value": value} for key, value in each.headers],
            }
            for each in self.given.between(start, stops)
        ]
        table = pa.Table.from_pylist(rows, schema=to_arrow_schema(RECORD, timezone="UTC"))
        return spark.createDataFrame(table, RECORD).coalesce(1)
