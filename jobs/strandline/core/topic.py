"""A Kafka topic, and how its payloads are read."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Protocol, TypeAlias, runtime_checkable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import DRIFT, parse_json
from strandline.core.routes import KIND, KIND_BY, KindBy

Parse: TypeAlias = Callable[[DataFrame, StructType], DataFrame]
"""Adds the declared fields and ``_problem`` to rows of bronze."""

NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)
"""What Kafka takes as the name of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic.

    Args:
        name: Its name in the cluster.
        partitions: How many to create where the project makes the topic itself.
        parse: How its payloads are read; a new format is one such function.
        kind: How the kinds of its records differ, where it has several (jobs/strandline/core/routes.py).
    """

    name: str
    partitions: int = 4
    parse: Parse = parse_json
    kind: KindBy | None = None

    def __post_init__(self) -> None:
        """Refuse what Kafka would refuse later, in the middle of a start.

        Raises:
            DefinitionError: The name is no name of a topic, or there is no partition.
        """
        if not NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise DefinitionError(
                f"a Topic declares name={self.name!r}, which no topic of Kafka can have",
                hint="a name has letters, digits, dots, dashes and underscores, at most 249 of them.",
            )
        if isinstance(self.partitions, bool) or self.partitions < 1:
            raise DefinitionError(
                f"topic {self.name} declares partitions={self.partitions!r}, and has at least one",
                hint="write partitions=1, or leave it out.",
                topic=self.name,
            )
        if self.kind is not None and not isinstance(self.kind, KindBy):
            raise DefinitionError(
                f"topic {self.name} declares kind={self.kind!r}, which does not say how kinds differ",
                hint='write kind=field("type"), header("type"), key_prefix(":") or schema_id(); what a table takes is its '
                "`takes`.",
                topic=self.name,
            )

    def __str__(self) -> str:
        """Return the topic's name."""
        return self.name


# A record that a project's play module sends: what any producer sends, with the time of its arrival.


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a Kafka topic.

    Args:
        topic: The topic.
        key: Its key.
        value: Its payload.
        arrived_at: Its timestamp, by which its lateness is judged.
    """

    topic: str
    key: bytes
    value: bytes
    arrived_at: datetime


# The columns of every bronze table, and those that silver carries along.
#
# Bronze is as received: the bytes, the key, the headers and their place in Kafka.
# ``(_topic, _partition, _offset)`` is the identity of an event and travels with it to the end.
# Every name begins with an underscore, so that none collides with a column of a user's table.
# ``_batch`` numbers the commits, because every replay decides duplicates in commit order, then by arrival; a commit may
# be cut anywhere along that order without changing which copy is the first.
# ``_ingested_at`` is the clock of the reader: a record with a later timestamp was stamped by a broken clock and must not
# move the watermark.
# ``_newest_before`` is the newest arrival in all commits before the row's own, without those of a broken clock
# (``SKEW`` in jobs/strandline/core/kind.py); ``NOTHING_ARRIVED`` in the first commit, NULL in one of an older version. It is
# written into the row so that every mode, every other split of the log into batches and every replay measures disorder
# against the same moment (jobs/strandline/core/kind.py).


HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

RECEIVED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
    .add("_batch", LongType())
    .add("_ingested_at", TimestampType())
    .add("_newest_before", TimestampType())
)

ROUTED = StructType([*RECEIVED.fields]).add(KIND, StringType()).add(KIND_BY, StringType())
"""Those of a bronze table whose topics have several kinds."""

NOTHING_ARRIVED = datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)
"""The newest arrival before the first; a millisecond after the watermark of a stream that has read nothing."""

ORDER = ("_batch", "_arrived_at", "_topic", "_partition", "_offset")
"""The order of bronze; of several copies the first in this order counts."""

CARRIED = (*RECEIVED.fieldNames(), "_problem", DRIFT)
"""The columns that a silver function passes on beside its own; ``_problem`` is the reason why a payload is no row, and ``_drift`` says what
it has beside its declaration."""

PLACE = ("_topic", "_partition", "_offset")
"""The identity of a record. As the key of a judged table it says that its events have none of their own: of two equal
ones each is a row, because nothing says which of them, if any, was sent twice."""

IDENTITY = (*PLACE, "_arrived_at")
"""The place of an event in Kafka and its arrival; every silver row and every quarantined one carries them."""

QUARANTINE = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
)
"""A row of the quarantine: every reason, the original bytes, and the identity.

Where items of believed records are held, it has the place of the item as well (``_item``), which is NULL of a record."""

RESOLUTION = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("generation", LongType())
    .add("was", StringType())
    .add("status", StringType())
    .add("why", StringType())
    .add("who", StringType())
    .add("resolved_at", TimestampType())
    .add("entry", StringType())
)
"""A decision about a record of the quarantine: the record, its new status, the reason, and who decided."""


# One table from several shapes of the same event.
#
# Why a union of filters: each shape is read by its own function, which does not know the others. The stream still has
# one source, because all sides of the union begin at the same one; its files are read once for each shape,
# which costs little beside parsing them.


def united(
    events: DataFrame, shapes: Mapping[Topic, Callable[[DataFrame], DataFrame]]
) -> DataFrame:
    """Read the events of each topic by its own function, and return the union of the rows.

    The first topic's function also reads events of any other topic, so that no event is without a verdict.
    """
    first, *others = shapes
    names = [topic.name for topic in others]
    parts = [shapes[topic](events.where(F.col("_topic") == topic.name)) for topic in others]
    rest = events.where(~F.col("_topic").isin(names)) if names else events
    return reduce(DataFrame.unionByName, parts, shapes[first](rest))


# What a project's play hands over: many records at once, and the counts that its tables must have of them.
#
# A single record is a ``Record``; a play of millions gives ``Records``, because an object for each record
# costs as much as sending it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Consecutive records of one topic, as columns of one length.

    Args:
        topic: The topic.
        keys: Their keys.
        values: Their payloads.
        arrived_at: Their timestamps in milliseconds since 1970.
    """

    topic: str
    keys: Sequence[bytes]
    values: Sequence[bytes]
    arrived_at: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The records of a table by outcome.

    Args:
        good: The number of rows.
        duplicates: The number of copies of them.
        quarantined: The number of others, by their one reason.
    """

    good: int
    duplicates: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        """Return the sum of the counts of two topics of one table."""
        return Counts(
            good=self.good + other.good,
            duplicates=self.duplicates + other.duplicates,
            quarantined=dict(Counter(self.quarantined) + Counter(other.quarantined)),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the counts as JSON values."""
        reasons = dict(sorted(self.quarantined.items()))
        return {"good": self.good, "duplicates": self.duplicates, "quarantined": reasons}


Played: TypeAlias = Iterable[Record | Records]


@runtime_checkable
class Foreseen(Protocol):
    """Events of a play that knows what becomes of them."""

    def expected(self) -> Mapping[str, Counts]:
        """Return the counts of each table, by its id, for the records that were taken until now."""


@runtime_checkable
class Planned(Protocol):
    """Events of a play that says itself what was asked for."""

    def plan(self) -> Mapping[str, object]:
        """Return it by name; a moment or a span of time is Python's own."""
