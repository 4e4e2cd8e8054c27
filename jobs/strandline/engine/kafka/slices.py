"""The backlog of a bronze table's topics: how far they are read, how long Kafka keeps the rest, and the slice that is read next.

Why slices are aligned by time: a backlog read with a limit per batch must not run ahead in one partition and
lag in another, because the watermark follows the newest row. Spark's own ``maxOffsetsPerTrigger`` splits a batch in
proportion to each partition's backlog; a partition whose events all lie in the last hour is then read hours ahead of
the others, the watermark follows it, and the rest of the other partitions is dropped as late. Here a slice ends at
the same time in all partitions.

Why a record whose clock is ahead is passed over in the search: the broker answers with the first record at or after a
moment, and such a record is that for every moment after the record before it, also long after it was read. Its partition
was read no further until all others were read, and what came behind it was far behind them. So where the broker knows of
one, the partition is searched record by record (SpoiltIndex).

Why several topics fill one table: for the same reason. If two queries read two shapes of one event, their rows come
in whatever order the queries happen to run, and the rows of the slower one meet a watermark that the faster one
advanced. Read together they arrive in the order of their time.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import confluent_kafka

from strandline.core.errors import LakeError, TransientError
from strandline.core.kind import SKEW, milliseconds
from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import Cluster
from strandline.engine.kafka.topic_log import STAY, Log, consumer, number_in_kafka, stays
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Offsets, last_entry
from strandline.engine.lake.place import damage

if TYPE_CHECKING:
    from confluent_kafka.admin._config import ConfigEntry

FEW = 1_000
"""Records whose clocks are ahead that are passed over in a row; where there are more, the partition waits at them."""

PATIENCE = 10.0
"""Seconds to wait for a record."""

POLL = 0.5


class SpoiltIndex:
    """A part of a partition that is searched by time, without the records whose clocks are ahead.

    Where a time begins in a partition whose time index a broken clock has spoilt: found by reading single records.

    A search is some twenty reads of a record, and the searches for one slice are for moments ever closer to each other, so
    most of what they ask for is known.
    """

    def __init__(self, log: Log, partition: int, start: int, end: int, *, ahead: int) -> None:
        """Prepare; nothing is read yet.

        Args:
            log: The topic.
            partition: The partition.
            start: The first offset that is searched.
            end: The one after the last.
            ahead: The first millisecond that is beyond every true clock.
        """
        self._log, self._partition, self._ahead = log, partition, ahead
        self._start, self._end = start, end
        self._known: dict[int, int | None] = {}

    def first_at(self, moment: int) -> int:
        """Return the first offset at or after a time in milliseconds, the end where there is none."""
        low, high = self._start, self._end
        while low < high:
            middle = (low + high) // 2
            at = self._time(middle)
            if at is None or at >= moment:
                high = middle
            else:
                low = middle + 1
        return low

    def _time(self, offset: int) -> int | None:
        """Return the time of the record at or after an offset whose clock is right; None where none is near."""
        at, seen, deadline = offset, 0, time.monotonic() + PATIENCE
        while offset not in self._known and seen < FEW and time.monotonic() < deadline:
            found = self._log.look(self._partition, at, POLL)
            self._learn(offset, found)
            seen += len(found)
            at = (found[-1].offset() or 0) + 1 if found else at
            if at >= self._end:
                break
        return self._known.setdefault(offset, None)

    def _learn(self, offset: int, found: "Sequence[confluent_kafka.Message]") -> None:
        """Note the times of records that were read together, each also for the offsets before it that have none."""
        begins = offset
        for message in found:
            own, moment = message.offset() or 0, message.timestamp()[1]
            if own < self._end and moment < self._ahead:
                self._known.update(dict.fromkeys(range(begins, own + 1), moment))
                begins = own + 1


Part: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""
Positions: TypeAlias = Mapping[Part, int]
Bounds: TypeAlias = Mapping[Part, tuple[int, int]]


class Backlog:
    """The topics of one table as one log."""

    def __init__(
        self,
        address: str,
        options: Mapping[str, str],
        topics: Sequence[Topic],
        read: Iterable[Part] = (),
        asks: "confluent_kafka.Consumer | None" = None,
    ) -> None:
        """Connect; the cluster is not queried yet.

        Args:
            address: Where Kafka is.
            options: Its client's options.
            topics: Which.
            read: The partitions that their reader knows, which say on which cluster each topic is (jobs/strandline/engine/kafka/topic_log.py).
            asks: A client that others use as well, and close.
        """
        self._logs = {topic.name: Log(address, options, topic, asks) for topic in topics}
        known = stays(read)
        self._first = {name: known.get(name, 0) * STAY for name in self._logs}

    def close(self) -> None:
        """Disconnect."""
        for log in self._logs.values():
            log.close()

    def identities(self) -> dict[str, str]:
        """Return the id that the cluster gave to each topic; a recreated topic has another.

        Raises:
            TransientError: The cluster does not answer.
            DefinitionError: A topic does not exist.
        """
        for log in self._logs.values():
            log.partitions()
        return {name: log.identity() for name, log in self._logs.items()}

    def bounds(self) -> dict[Part, tuple[int, int]]:
        """Return for each partition the first retained offset and the one after the last."""
        return {
            (name, self._first[name] + number): ends
            for name, log in self._logs.items()
            for number, ends in log.bounds().items()
        }

    def in_kafka(self, positions: Positions) -> dict[Part, int]:
        """Return positions by the numbers that their partitions have on the cluster."""
        return {
            (name, number): at
            for name in self._logs
            for number, at in self._within(positions, name).items()
        }

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return for each topic that is not on its first cluster what its partitions' numbers are greater by in the lake."""
        return {name: first for name, first in self._first.items() if first}

    def at(self, moment: int, bounds: Bounds) -> dict[Part, int]:
        """Return for each partition the first offset at or after a time in milliseconds, its end where there is none."""
        found: dict[Part, int] = {}
        for name, log in self._logs.items():
            parts = sorted(self._within(dict.fromkeys(bounds, 0), name))
            for number, offset in log.offsets_at(moment, parts).items():
                part = (name, self._first[name] + number)
                found[part] = bounds[part][1] if offset is None else offset
        return found

    def slice(self, start: Positions, end: Positions, limit: int | None) -> dict[Part, int]:
        """Return the offsets to stop at, so that about ``limit`` records at most are read, all up to one time."""
        waiting = {part: end[part] - start[part] for part in end if end[part] > start[part]}
        if limit is None or sum(waiting.values()) <= limit:
            return {part: end[part] for part in waiting}
        # About 40 queries of a millisecond each, for which the broker only reads its time index.
        low, high = 0, time.time_ns() // 1_000_000
        spoilt = self._spoilt(high + milliseconds(SKEW), start, end, waiting)
        stops = dict(start)
        while low < high:  # search for the latest time within the limit
            moment = (low + high + 1) // 2
            candidate = self._until(moment, start, end, waiting, spoilt)
            if sum(candidate[part] - start[part] for part in waiting) <= limit:
                low, stops = moment, candidate
            else:
                high = moment - 1
        if all(stops[part] == start[part] for part in waiting):
            return self._of_a_crowd(low, start, end, waiting, limit, spoilt)
        return {part: stops[part] for part in waiting if stops[part] > start[part]}

    def _of_a_crowd(  # noqa: PLR0913, PLR0917  # where, and how much
        self,
        moment: int,
        start: Positions,
        end: Positions,
        waiting: Positions,
        limit: int,
        spoilt: Mapping[Part, SpoiltIndex],
    ) -> dict[Part, int]:
        """Return a slice of records that all have the same time and are more than the limit: a part of the first partition.

        Each partition is read to its last record of that time and no further: otherwise one partition would be read
        ahead of the others, and the watermark with it.
        """
        until = self._until(moment + 1, start, end, waiting, spoilt)
        crowd = {part: until[part] for part in waiting if until[part] > start[part]}
        first = min(
            crowd or waiting
        )  # none has one when all are of the future, which moves no time
        return {first: min(start[first] + limit, crowd.get(first, end[first]))}

    def count(self, start: Positions, end: Positions) -> int:
        """Count the committed records between two positions by reading them."""
        return sum(
            log.count(self._within(start, name), self._within(end, name))
            for name, log in self._logs.items()
        )

    def records(self, start: Positions, end: Positions) -> "Iterator[confluent_kafka.Message]":
        """Yield the committed records between two positions, topic by topic."""
        for name, log in self._logs.items():
            yield from log.records(self._within(start, name), self._within(end, name))

    def _spoilt(
        self, ahead: int, start: Positions, end: Positions, waiting: Positions
    ) -> dict[Part, SpoiltIndex]:
        """Return the partitions with a record at or after a time that no record can have."""
        return {
            part: SpoiltIndex(log, number, start[part], end[part], ahead=ahead)
            for name, log in self._logs.items()
            if (asked := sorted(self._within(waiting, name)))
            for number, offset in log.offsets_at(ahead, asked).items()
            if offset is not None and offset < end[part := (name, self._first[name] + number)]
        }

    def _until(
        self,
        moment: int,
        start: Positions,
        end: Positions,
        waiting: Positions,
        spoilt: Mapping[Part, SpoiltIndex],
    ) -> dict[Part, int]:
        stops = dict(start)
        for part, index in spoilt.items():
            stops[part] = index.first_at(moment)
        for name, log in self._logs.items():
            first = self._first[name]
            parts = sorted(self._within(waiting, name))
            asked = [n for n in parts if (name, first + n) not in spoilt]
            for number, offset in log.offsets_at(moment, asked).items() if asked else ():
                part = (name, first + number)
                stop = end[part] if offset is None else offset
                stops[part] = min(max(stop, start[part]), end[part])
        return stops

    def _within(self, positions: Positions, topic: str) -> dict[int, int]:
        """Return the positions of a topic by the numbers of its partitions on the cluster."""
        first = self._first[topic]
        return {
            number - first: offset
            for (name, number), offset in positions.items()
            if name == topic and first <= number < first + STAY
        }


def name_of(part: Part) -> str:
    """Return a partition's name, as the ledger writes it."""
    topic, number = part
    return f"{topic}/{number}"


def part_of(name: str) -> Part:
    """Return the partition of a name."""
    topic, _, number = name.rpartition("/")
    return topic, int(number)


def range_ends(ranges: Offsets) -> dict[Part, int]:
    """Return the ends of the ranges of a ledger entry."""
    return {part_of(name): end for name, (_, end) in ranges.items()}


# The offsets of a table's topics, and how far the table has read them.


@dataclass(frozen=True, slots=True)
class Ends:
    """The first retained offset of a partition, the one after the last, and the next one to read."""

    first: int
    end: int
    read: int

    @property
    def lag(self) -> int:
        """Return the number of unread offsets."""
        return self.end - self.read


def ends_of(
    table: Table,
    lake: Lake,
    address: str,
    options: Mapping[str, str],
    asks: "confluent_kafka.Consumer | None" = None,
) -> dict[Part, Ends]:
    """Return the offsets of all partitions of a table's topics, from Kafka and the ledger.

    Args:
        table: The table.
        lake: The lake.
        address: Where Kafka is.
        options: Its client's options.
        asks: The client to ask with, which stays open; one for each topic when absent.
    """
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    read = newest[1].offsets if newest else {}
    # The sums say which topics are retired; once a second the newest entry must do, which names those that it read.
    known = {part_of(name)[0] for name in read}
    named = {each.rpartition("@")[0] for each in newest[1].stream.split(",")} if newest else set()
    topics = [each for each in table.topics if each.name in named or each.name not in known]
    backlog = Backlog(address, options, topics, map(part_of, read), asks)
    try:
        return ends(backlog.bounds(), read)
    finally:
        backlog.close()


def ends(bounds: Bounds, read: Offsets) -> dict[Part, Ends]:
    """Return for each partition its ends and how far it was read."""
    return {
        part: Ends(first, end, read.get(name_of(part), (0, first))[1])
        for part, (first, end) in bounds.items()
    }


def unread_offsets(
    tables: Sequence[Table],
    lake: Lake,
    address: str | None,
    options: Mapping[str, str],
    *,
    also_new: bool = False,
) -> dict[str, int]:
    """Return by bronze table how many offsets it has not read, where Kafka answers.

    A table of which that cannot be known, as one whose topic was deleted, is left out, and hides no other; so is a retired one.

    Args:
        tables: Any tables; those that read no topic are passed over.
        lake: The lake.
        address: Where Kafka is; None where no broker runs.
        options: Its other settings.
        also_new: Whether tables count that were never made; they have read nothing.
    """
    found: dict[str, int] = {}
    if address is None:
        return found
    try:
        asks = consumer(address, options)
    except confluent_kafka.KafkaException:  # its options are wrong, for all tables alike
        return found
    try:
        for table in fed(tables, lake):
            try:
                if isinstance(table, Ingested) and (also_new or lake.exists(table)):
                    parts = ends_of(table, lake, address, options, asks)
                    found[table.id] = sum(part.lag for part in parts.values())
            except (TransientError, confluent_kafka.KafkaException):
                break  # a cluster that is away is away for all tables, and each would wait for it
            except Exception as error:
                # A topic that was deleted, a torn commit: one table's own, and reported with its books.
                if not isinstance(error, LakeError) and damage(error, table) is None:
                    raise
    finally:
        asks.close()
    return found


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
    consumer: "confluent_kafka.Consumer", positions: dict[Part, int], deadline: float
) -> dict[Part, int]:
    consumer.assign(
        [confluent_kafka.TopicPartition(*part, offset) for part, offset in positions.items()]
    )
    found: dict[Part, int] = {}
    wanted = set(positions)
    while wanted and time.monotonic() < deadline:
        for message in consumer.consume(1_000, timeout=0.1):
            part = (message.topic() or "", message.partition() or 0)
            error = message.error()
            end = confluent_kafka.KafkaError._PARTITION_EOF  # noqa: SLF001  # public, though so named
            if part not in wanted or (error and error.code() != end):
                continue
            kind, moment = message.timestamp()
            if error is None and kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE:
                found[part] = moment
            wanted.discard(part)
            consumer.incremental_unassign([confluent_kafka.TopicPartition(*part)])
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
    from confluent_kafka.admin._config import ConfigResource  # noqa: PLC0415  # with its client
    from confluent_kafka.admin._resource import ResourceType  # noqa: PLC0415  # as above

    asked = {ConfigResource(ResourceType.TOPIC, name): name for name in sorted(set(topics))}
    if not asked:
        return {}
    found = client.describe_configs(list(asked), request_timeout=broker.PATIENCE)
    return {name: _retention(found[resource]) for resource, name in asked.items()}


def _retention(answer: "Future[dict[str, ConfigEntry]]") -> Retention:
    try:
        values = {name: entry.value for name, entry in answer.result(2 * broker.PATIENCE).items()}
    except (confluent_kafka.KafkaException, TimeoutError) as error:
        why = (
            error.args[0].str()
            if isinstance(error, confluent_kafka.KafkaException)
            else "no answer"
        )
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
    there = names & broker.topics(address, options).keys()
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
