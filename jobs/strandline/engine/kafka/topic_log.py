"""The contents of one topic of Kafka, read with the C client, which needs no JVM."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

import confluent_kafka
import confluent_kafka.admin

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.topic import Topic
from strandline.engine.kafka.broker import JAVA_ONLY, PATIENCE

# What can happen to a topic below its reader: records expire, it is made anew, its cluster is another one.
#
# Records that Kafka removed before they were read: which they are, and the error with which their reader stops.
#
# A reader does not go on at what is left, as most do by default: it stops, and a person decides
# (jobs/strandline/engine/repair/close.py).


Part: TypeAlias = tuple[str, int]
Ranges: TypeAlias = Mapping[Part, tuple[int, int]]
"""For each partition of a topic the first offset and the one after the last."""


class ExpiredError(DataError):
    """Records expired before they were read."""

    def __init__(self, reader: str, gone: Ranges) -> None:
        """Name all of them."""
        super().__init__(
            f"{reader}: {described(gone)} expired in Kafka before they were read",
            hint=f'they are lost to this lake. `strandline accept-loss {reader} --because "…"` records the loss, and it '
            "reads on at what is left; increase the topic's retention, and `strandline radar` shows what is next.",
            reader=reader,
            offsets={f"{topic}/{number}": ends for (topic, number), ends in gone.items()},
        )
        self.gone = gone


def expired(start: Mapping[Part, int], bounds: Ranges) -> dict[Part, tuple[int, int]]:
    """Return the offsets that were to be read next and are before those that Kafka has, by partition."""
    return {
        part: (offset, bounds[part][0])
        for part, offset in sorted(start.items())
        if part in bounds and offset < bounds[part][0]
    }


def described(ranges: Ranges) -> str:
    """Return ranges of offsets in words, both ends included.

    >>> described({("readings", 0): (3, 15)})
    'offsets 3 to 14 of partition 0 of readings'
    """
    return " and ".join(
        f"offsets {first} to {end - 1} of partition {number} of {topic}"
        for (topic, number), (first, end) in ranges.items()
    )


def count(ranges: Ranges) -> int:
    """Return the number of offsets in ranges."""
    return sum(end - first for first, end in ranges.values())


# The clusters that a topic was read from, one after the other: on each its offsets begin again, and no two events have one place.
#
# The place of a record (topic, partition, offset) is its identity in every table. On another cluster, and in a topic that was
# made anew under its name, the same places mean other records. So the partitions of the second cluster have numbers of their
# own in the lake, from 1,000,000 on: partition 3 of it is 1000003. Topic and offset are those of Kafka, so that a function
# that reads a topic by its name, and a person with Kafka's own tools, find what they look for; and the ledger counts each
# partition of each cluster by itself, without a gap or an overlap.
#
# Only what asks Kafka translates (jobs/strandline/engine/kafka/slices.py).


STAY = 1_000_000
"""More than any topic has partitions."""


def stays(parts: Iterable[Part]) -> dict[str, int]:
    """Return for each topic on which of its clusters it is: 0 for the first, which most never leave.

    >>> stays([("readings", 0), ("readings", 1_000_000), ("orders", 3)])
    {'readings': 1, 'orders': 0}
    """
    found: dict[str, int] = {}
    for topic, number in parts:
        found[topic] = max(found.get(topic, 0), number // STAY)
    return found


def current(positions: Mapping[Part, int]) -> dict[Part, int]:
    """Return the positions on the cluster on which each topic is now.

    >>> current({("readings", 0): 17, ("readings", 1_000_000): 3, ("orders", 0): 5})
    {('readings', 1000000): 3, ('orders', 0): 5}
    """
    now = stays(positions)
    return {part: at for part, at in positions.items() if is_on(part, now.get(part[0], 0))}


def is_on(part: Part, stay: int) -> bool:
    """Return whether a partition is one of a cluster; rows that came from files are of none."""
    return stay * STAY <= part[1] < (stay + 1) * STAY


def number_in_kafka(part: Part) -> int:
    """Return the number that a partition has on its cluster."""
    return part[1] % STAY


# A topic that was deleted, or made anew under its name, since a reader read it: what is lost, and the one way on.
#
# The place of a record (topic, partition, offset) is its identity in every table. The records of the new topic have the places of
# those of the former one, so they cannot come into the same rows. Under a name of its own they can: a table that names another
# topic goes on in its lake, with what it has read of the former one.


WAY = (
    "its new records would have the places of those that were read. Let its producers write to a topic of another name, "
    "name that in the table's declaration, and the table goes on in this lake with all that it has; or `strandline move` "
    "reads the new one, and another cluster, under numbers of its own "
    "(infra/runbooks/lost.md)."
)


class RecreatedError(DataError):
    """A topic is another one than its reader has read."""

    def __init__(self, reader: str, topic: str, read: Mapping[Part, int]) -> None:
        """Name what is lost."""
        lost = lost_of(topic, read)
        super().__init__(
            f"{reader} read another topic of the name {topic}: the topic was recreated; {lost}",
            hint=WAY,
            table=reader,
            topic=topic,
            lost_from={f"{name}/{number}": at for (name, number), at in read.items()},
        )


def deleted(absent: str, reader: str, topic: str, read: Mapping[Part, int]) -> DefinitionError:
    """Return the refusal of a topic that is not there any more and was read: it must not be made again.

    Args:
        absent: The sentence that it is not there.
        reader: The table or the feed that read it.
        topic: Its name.
        read: The offsets up to which it was read.
    """
    return DefinitionError(
        f"{absent} any more, and {reader} has read it; {lost_of(topic, read)}",
        hint=f"do not make it anew: {WAY} A bronze table of several topics goes on without it by "
        f"`strandline retire TABLE --topic {topic} --leave-unread`.",
        table=reader,
        topic=topic,
    )


def lost_of(topic: str, read: Mapping[Part, int]) -> str:
    """Return what of a topic is lost that is gone: all that it had beyond what was read.

    >>> lost_of("readings", {("readings", 0): 12, ("other", 0): 3})
    'what the former one had from offset 12 of partition 0 on is lost'
    """
    parts = [(number, at) for (name, number), at in sorted(read.items()) if name == topic]
    from_where = " and ".join(f"offset {at} of partition {number}" for number, at in parts)
    return f"what the former one had from {from_where or 'where it was read'} on is lost"


def identities_in(stream: str) -> dict[str, str]:
    """Return the ids of topics by their names, as a ledger entry has them.

    >>> identities_in("orders@f3,readings@a1")
    {'orders': 'f3', 'readings': 'a1'}
    """
    return dict(topic.rsplit("@", 1) for topic in stream.split(",") if "@" in topic)


# The offsets of a consumer group, by which Kafka's own tools see how far a reader is that has none.


def offsets_of(address: str, options: Mapping[str, str], group: str) -> dict[Part, int]:
    """Return the offsets that a consumer group has, of the topics that there are.

    A consumer asks, which is no member before it subscribes. An admin client that is refused them ends the process: librdkafka has the
    coordinator looked up by the group of the client, and an admin client is in none [2.16.1, SIGSEGV in rd_kafka_cgrp_op below
    rd_kafka_handle_OffsetFetch].

    Raises:
        KafkaException: The cluster does not answer, or refuses.
    """
    asks = consumer(address, options, **{"group.id": group})
    try:
        parts = [
            confluent_kafka.TopicPartition(name, number)
            for name, topic in asks.list_topics(timeout=PATIENCE).topics.items()
            if not name.startswith("__")
            for number in topic.partitions
        ]
        found = asks.committed(parts, timeout=2 * PATIENCE) if parts else []
    finally:
        asks.close()
    for each in found:
        if each.error is not None:
            raise confluent_kafka.KafkaException(each.error)
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def read_of(
    asks: "confluent_kafka.admin.AdminClient",
    identities: Mapping[str, str],
    read: Mapping[Part, int],
) -> dict[Part, int]:
    """Return the next offset to read of each partition, by the numbers that these have on the cluster.

    Args:
        asks: The cluster's admin.
        identities: The ids of the topics that were read; one that was made anew has another, and is left out.
        read: Up to where they were read, by the numbers in the lake. A partition that was not read is at its first record.

    Raises:
        KafkaException: The cluster does not answer, or refuses.
    """
    if not identities:
        return {}
    there = asks.describe_topics(
        confluent_kafka.TopicCollection([*identities]), request_timeout=PATIENCE
    )
    found = dict[Part, int]()
    for name, answer in there.items():
        try:
            topic = answer.result(2 * PATIENCE)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise
        if str(topic.topic_id) == identities[name]:
            found |= {(name, each.id): -1 for each in topic.partitions}
    own = {(part[0], number_in_kafka(part)): at for part, at in current(read).items()}
    from confluent_kafka.admin._listoffsets import OffsetSpec  # noqa: PLC0415  # with its client

    first = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    unread = {confluent_kafka.TopicPartition(*part): first for part in found if part not in own}
    firsts = asks.list_offsets(unread, request_timeout=PATIENCE) if unread else {}
    begins = {
        (each.topic, each.partition): at.result(2 * PATIENCE).offset for each, at in firsts.items()
    }
    return {part: begins.get(part, own.get(part, 0)) for part in found}


TIMEOUT = 10.0
Positions = Mapping[int, int]
Answer = TypeVar("Answer")


@cache
def _passing() -> frozenset[int]:
    """Return the errors while a broker starts; the client marks none of them retriable here."""
    return frozenset(
        {
            confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
            confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
            confluent_kafka.KafkaError._TRANSPORT,  # noqa: SLF001  # public, though so named
            confluent_kafka.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  # as above
        }
    )


class Log:
    """A topic, read by ranges of offsets."""

    def __init__(
        self,
        address: str,
        options: Mapping[str, str],
        topic: Topic,
        asks: "confluent_kafka.Consumer | None" = None,
    ) -> None:
        """Connect, unless with a client that others use as well, and close; the cluster is not queried yet."""
        self.address = address
        self.topic = topic
        self._options = options
        self._reading = _reading(address, options)
        self._is_shared = asks is not None
        self._consumer = asks or confluent_kafka.Consumer(self._reading)

    def close(self) -> None:
        """Disconnect."""
        if not self._is_shared:
            self._consumer.close()
        if "_looker" in self.__dict__:
            self._looker.close()

    def partitions(self) -> list[int]:
        """Return the topic's partitions.

        Raises:
            TransientError: The cluster does not answer.
            DefinitionError: The topic does not exist.
        """
        try:
            known = self._consumer.list_topics(self.topic.name, timeout=TIMEOUT)
        except confluent_kafka.KafkaException as error:
            raise self._silent(error) from error
        found = known.topics[self.topic.name]
        if found.error is not None or not found.partitions:
            raise self._missing()
        return sorted(found.partitions)

    def neighbours(self) -> list[str]:
        """Return the topics that the cluster has.

        Raises:
            TransientError: The cluster does not answer.
        """
        try:
            return sorted(self._consumer.list_topics(timeout=TIMEOUT).topics)
        except confluent_kafka.KafkaException as error:
            raise self._silent(error) from error

    def identity(self) -> str:
        """Return the id that the cluster gave to the topic; a recreated topic has another."""
        name = self.topic.name
        asked = self._admin.describe_topics(confluent_kafka.TopicCollection([name]))
        try:
            return str(asked[name].result(timeout=TIMEOUT).topic_id)
        except TimeoutError as error:
            why = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TIMED_OUT)  # noqa: SLF001  # as above
            raise self._silent(confluent_kafka.KafkaException(why)) from error
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._missing() from error
            raise self._silent(error) from error

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return for each partition the first retained offset and the one after the last."""
        return self._patiently(
            lambda: {
                number: self._consumer.get_watermark_offsets(self._at(number), timeout=TIMEOUT)
                for number in self.partitions()
            }
        )

    def count(self, start: Positions, end: Positions) -> int:
        """Count the committed records between two positions by reading them."""
        return sum(1 for _ in self.records(start, end))

    def records(self, start: Positions, end: Positions) -> "Iterator[confluent_kafka.Message]":
        """Yield the committed records between two positions, for as long as records come.

        Raises:
            TransientError: Kafka returned nothing for a while; the records so far are not all.
        """
        parts = [
            confluent_kafka.TopicPartition(self.topic.name, p, start[p])
            for p in end
            if end[p] > start[p]
        ]
        open_ends = {part.partition: end[part.partition] for part in parts}
        most = sum(end[part.partition] - part.offset for part in parts)
        self._consumer.assign(parts)
        seen, moved_at, places = 0, time.monotonic(), list[int]()
        while open_ends:
            # No more than what is left: the client waits for as many as are asked for, and fetches meanwhile what comes.
            for message in self._consumer.consume(min(max(most - seen, 1), 10_000), timeout=0.2):
                offset, part = message.offset(), message.partition()
                if message.error() is not None or offset is None or part is None:
                    continue
                if offset < end.get(part, 0):
                    seen += 1
                    yield message
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

    def follow(self, start: Positions) -> None:
        """Read on from positions; ``arrived`` returns what has come."""
        self._consumer.assign(
            [confluent_kafka.TopicPartition(self.topic.name, p, start[p]) for p in start]
        )

    def arrived(self, seconds: float) -> "list[confluent_kafka.Message]":
        """Return the committed records that have come, having waited for the first for some seconds at most.

        Raises:
            TransientError: The topic no longer holds the next record.
        """
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        found = []
        for message in (first, *self._consumer.consume(10_000, timeout=0)):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # as above
                raise TransientError(
                    f"topic {self.topic.name} no longer holds the record that is read next",
                    hint="it expired, or the topic was made anew; its bounds say what it holds.",
                    topic=self.topic.name,
                )
            elif error.code() != confluent_kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001  # as above
                raise confluent_kafka.KafkaException(error)
        return found

    def look(self, partition: int, offset: int, seconds: float) -> "list[confluent_kafka.Message]":
        """Return some committed records from an offset on, having waited for the first for some seconds at most.

        A consumer of its own: the broker holds a fetch at the end of a partition for half a second, and the next look of the
        same consumer waits behind it.
        """
        self._looker.assign([confluent_kafka.TopicPartition(self.topic.name, partition, offset)])
        first = self._looker.poll(seconds)
        found = [first, *self._looker.consume(10_000, timeout=0)] if first is not None else []
        return [message for message in found if message.error() is None]

    @cached_property
    def _looker(self) -> "confluent_kafka.Consumer":
        return confluent_kafka.Consumer({**self._reading, "fetch.wait.max.ms": "5"})

    def _stopped(self, seen: int, open_ends: Positions) -> TransientError:
        return TransientError(
            f"Kafka returned nothing more of topic {self.topic.name} after {seen:,} records, "
            f"short of the end of partition {' and '.join(map(str, sorted(open_ends)))}",
            hint="type the same again; if that does not help, read the broker's log.",
            topic=self.topic.name,
            counted=seen,
            ends=dict(open_ends),
        )

    def offsets_at(self, moment: int, partitions: Sequence[int]) -> dict[int, int | None]:
        """Return for each partition the first offset at or after a time in milliseconds; None where there is none."""
        asked = [confluent_kafka.TopicPartition(self.topic.name, p, moment) for p in partitions]
        found = self._patiently(lambda: self._consumer.offsets_for_times(asked, timeout=TIMEOUT))
        return {part.partition: part.offset if part.offset >= 0 else None for part in found}

    def _at(self, partition: int) -> "confluent_kafka.TopicPartition":
        return confluent_kafka.TopicPartition(self.topic.name, partition)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        # The partitions of a new topic have no leader at first, nor have those of a broker that was just restarted;
        # a stream must outlast both.
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return ask()
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() not in _passing() or time.monotonic() > deadline:
                    raise self._silent(error) from error
                time.sleep(0.1)

    @cached_property
    def _admin(self) -> "confluent_kafka.admin.AdminClient":
        return admin(self.address, self._options)

    def _missing(self) -> DefinitionError:
        return DefinitionError(
            f"topic {self.topic.name} does not exist at {self.address}",
            hint="`strandline up` creates it on the lake's own broker; on another cluster its operator does. "
            "If it exists under another name, correct the topic of the table or STRANDLINE_KAFKA.",
            topic=self.topic.name,
        )

    def _silent(self, error: "confluent_kafka.KafkaException") -> TransientError:
        return TransientError(
            f"no Kafka broker answers at {self.address}: {error.args[0].str()}",
            hint="start the lake's broker with `strandline up`, or correct STRANDLINE_KAFKA.",
            address=self.address,
        )


def check_positions(
    table: str,
    start: Mapping[tuple[str, int], int],
    bounds: Mapping[tuple[str, int], tuple[int, int]],
) -> None:
    """Refuse to read on when Kafka no longer holds the next records.

    Raises:
        DataError: The topic was recreated.
        ExpiredError: Records expired before they were read; all ranges are named.
    """
    refuse_shrunk(table, start, bounds)
    if gone := expired(start, bounds):
        raise ExpiredError(table, gone)


def refuse_shrunk(
    table: str,
    start: Mapping[tuple[str, int], int],
    bounds: Mapping[tuple[str, int], tuple[int, int]],
) -> None:
    """Refuse a topic that ends before what was read of it.

    Raises:
        DataError: It was recreated, or lost its end.
    """
    for (topic, partition), offset in start.items():
        _, end = bounds.get((topic, partition), (0, 0))
        if offset > end:
            raise DataError(
                f"{table} has read partition {partition} of {topic} up to offset {offset}, "
                f"but the topic ends at {end}: it was made anew, or lost its end",
                hint=WAY,
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
        translated["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{_quoted(password)}";'
        )
    authority = translated.pop("kafka.ssl.ca.location", None)
    if authority is not None:
        translated |= {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": authority,
        }
    if translated.get("kafka.ssl.endpoint.identification.algorithm") == "none":
        translated["kafka.ssl.endpoint.identification.algorithm"] = ""
    return {**_with_token(_with_own_certificate(translated))}


PEM = {"ssl.certificate": "ssl.keystore.certificate.chain", "ssl.key": "ssl.keystore.key"}
"""The client's own certificate and its key: where the C client finds them, and what Java takes instead of a file of its kind."""


def _with_own_certificate(translated: dict[str, str]) -> dict[str, str]:
    """Give Java the client's own certificate as text: executors on other machines have no such file."""
    for ours, javas in PEM.items():
        file, text = (translated.pop(f"kafka.{ours}.{kind}", None) for kind in ("location", "pem"))
        if file is not None:
            text = _text_of(file)
        if text is None:
            continue
        if javas == PEM["ssl.key"] and not any(each in text for each in PKCS_8):
            raise DefinitionError(
                "the key of the client's certificate is not in the form PKCS #8, which Java reads alone",
                hint=f"convert it: `openssl pkcs8 -topk8 -nocrypt -in {file or 'KEY'} -out NEW`, and name the new file in "
                "STRANDLINE_KAFKA_OPTIONS.",
            )
        translated |= {"kafka.ssl.keystore.type": "PEM", f"kafka.{javas}": text}
    return translated


PKCS_8 = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
"""The first lines of such keys; one in an older form has the name of its algorithm there."""


def _text_of(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{file} of STRANDLINE_KAFKA_OPTIONS cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}",
            hint="name a file in PEM that this user may read.",
            file=file,
        ) from error


OIDC = "kafka.sasl.oauthbearer."
LOGIN = "org.apache.kafka.common.security.oauthbearer"


def _with_token(translated: dict[str, str]) -> dict[str, str]:
    """Let Java get its token where the C client gets its own: by OpenID Connect, with the client's credentials."""
    if translated.pop(f"{OIDC}method", None) != "oidc":
        return translated
    given = {
        javas: translated.pop(OIDC + ours, None)
        for javas, ours in (("clientId", "client.id"), ("clientSecret", "client.secret"))
    }
    given["scope"] = translated.pop(f"{OIDC}scope", None)
    words = " ".join(f'{name}="{_quoted(text)}"' for name, text in given.items() if text)
    return {
        **translated,
        "kafka.sasl.login.callback.handler.class": f"{LOGIN}.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.jaas.config": f"{LOGIN}.OAuthBearerLoginModule required {words};",
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def consumer(
    address: str, options: Mapping[str, str], **more: str | int
) -> "confluent_kafka.Consumer":
    """Return a client to ask a cluster of several topics, with some settings of its own; its maker closes it."""
    return confluent_kafka.Consumer({**_reading(address, options), **more})


def _reading(address: str, options: Mapping[str, str]) -> dict[str, str | int]:
    return {
        "bootstrap.servers": address,
        "log_level": 0,
        **{k: v for k, v in options.items() if not k.startswith("ssl.truststore")},
        "group.id": "strandline",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
    }


def admin(address: str, options: Mapping[str, str]) -> "confluent_kafka.admin.AdminClient":
    """Return an admin client of the cluster."""
    return confluent_kafka.admin.AdminClient(
        {"bootstrap.servers": address, "log_level": 0, **options}
    )


# Write single records to a topic, each acknowledged by all replicas before the next.


class TopicWriter:
    """Writes to one topic; after a failure it connects anew, because the lake's broker may return at another port."""

    def __init__(self, locate: Callable[[], str], options: Mapping[str, str], topic: str) -> None:
        """Connect to nothing yet."""
        self._locate, self._topic = locate, topic
        self._options = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        self._producer: confluent_kafka.Producer | None = None

    def write(self, key: str, value: bytes) -> None:
        """Write a record.

        Raises:
            TransientError: It was not acknowledged; it may be in the topic all the same.
        """
        failures: list[confluent_kafka.KafkaError] = []

        def reported(
            error: "confluent_kafka.KafkaError | None", _: "confluent_kafka.Message"
        ) -> None:
            if error is not None:
                failures.append(error)

        try:
            producer = self._connected()
            producer.produce(self._topic, value, key, on_delivery=reported)
            left = producer.flush(2 * TIMEOUT)
        except confluent_kafka.KafkaException as error:
            raise self._refused(error.args[0].str()) from error
        if left or failures:
            raise self._refused(failures[0].str() if failures else "no answer")

    def _connected(self) -> "confluent_kafka.Producer":
        if self._producer is None:
            self._producer = confluent_kafka.Producer(
                {
                    **self._options,
                    "bootstrap.servers": self._locate(),
                    "acks": "all",
                    "enable.idempotence": "true",
                    "message.timeout.ms": int(TIMEOUT * 1000),
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
        return self._producer

    def _refused(self, reason: str) -> TransientError:
        self._producer = None
        return TransientError(
            f"topic {self._topic} does not take the record: {reason}",
            hint="see that the topic exists, and that its broker runs (`strandline status`).",
            topic=self._topic,
        )
