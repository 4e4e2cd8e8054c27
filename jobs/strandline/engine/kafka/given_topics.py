"""Topics in memory, in place of a broker's: records that a test sends, which bronze reads as those of Kafka.

Bronze asks where a topic ends, which slice is next, and for its rows (jobs/strandline/engine/flow/ingest.py). Here these are
answered; all else, entry and commit included, is what it does with a broker. A slice ends where the sender has cut, so the commits
of bronze are the same whichever mode reads them later: disorder is measured from one commit to the next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

import pyarrow as pa
from confluent_kafka import Message
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

from strandline.core.errors import DefinitionError
from strandline.core.topic import HEADERS, Topic
from strandline.engine.kafka.slices import Bounds, Part, Positions

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
class Sent:
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
    _logs: dict[Part, list[Sent]] = field(default_factory=dict)
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
    ) -> Sent:
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
        sent = Sent(
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

    def all(self) -> Iterator[Sent]:
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

    def between(self, start: Positions, stops: Positions) -> Iterator[Sent]:
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

    def records(self, start: Positions, end: Positions) -> Iterator[Message]:
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
