"""Some records of a topic, from the lake or from Kafka, for a person who wants to know what they are like; without a JVM.

What is read is bounded: a number of records, of bytes and of seconds, whatever the topic holds. They come from the begin and the
end of the log, and of each partition alike, because a producer changes with time and a partition may have one customer.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from strandline.core.routes import KIND, KIND_BY, text_of
from strandline.core.table import Ingested
from strandline.core.topic import Topic
from strandline.engine.kafka.topic_log import Log, consumer
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.read.duckdb_table import Duck, literal, session, view_of
from strandline.engine.lake.read.open_table import live_files, live_rows, opened

MOST_BYTES = 32_000_000
"""Of payloads, however few they are: as Python's values they take ten times as much memory."""

SECONDS = 30.0
"""How long a topic is read."""

PLACES = 16
"""Partitions and files that are read; of more, these are spread evenly."""

TOO_FEW = 256_000
"""Bytes of payloads that each place may have in any case."""

SMALL_FETCHES: Mapping[str, str | int] = {"queued.max.messages.kbytes": 4_096}
"""A client fetches ahead up to 64 MB of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A record of a sample.

    Args:
        topic: The topic.
        arrived_at: Kafka's time of it; None where it has none.
        payload: Its value.
        key: Its key.
        headers: Its headers.
    """

    topic: str
    arrived_at: datetime | None
    payload: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Records, and what they were taken from.

    Args:
        records: The records.
        held: How many there were to choose from.
        place: Where they were read, in words.
        partitions: The partitions of the topic; 0 where the lake was read.
    """

    records: Sequence[Seen]
    held: int
    place: str
    partitions: int = 0


def of_topic(
    address: str, options: Mapping[str, str], topic: Topic, most: int, seconds: float = SECONDS
) -> Sample:
    """Return records of a topic: half of them from the begin of its partitions, half from their end.

    Raises:
        DefinitionError: The topic does not exist.
        TransientError: The cluster does not answer.
    """
    client = consumer(address, options, **SMALL_FETCHES)
    log = Log(address, options, topic, client)
    try:
        bounds = log.bounds()
        filled = {number: ends for number, ends in bounds.items() if ends[1] > ends[0]}
        parts = spread(sorted(filled), PLACES)
        deadline = time.monotonic() + seconds
        records = [
            _of_message(message, topic.name)
            for start, end, few in _ranges(filled, parts, most)
            for message in _within(log, (start, end), few, (len(parts), deadline))
        ]
    finally:
        client.close()
    held = sum(end - begin for begin, end in bounds.values())
    return Sample(
        records=records[:most], held=held, place=f"topic {topic.name}", partitions=len(bounds)
    )


def topics_beside(address: str, options: Mapping[str, str], topic: Topic) -> list[str]:
    """Return the topics of the cluster where a topic is looked for.

    Raises:
        TransientError: The cluster does not answer.
    """
    client = consumer(address, options)
    try:
        return Log(address, options, topic, client).neighbours()
    finally:
        client.close()


def _ranges(
    bounds: Mapping[int, tuple[int, int]], parts: Sequence[int], most: int
) -> Iterator[tuple[dict[int, int], dict[int, int], int]]:
    """Yield what is read: of each partition its first records, then its last ones."""
    each = -(-most // max(2 * len(parts), 1))
    for number in parts:
        begin, end = bounds[number]
        middle = max(end - each, begin)
        if middle < begin + each:
            yield {number: begin}, {number: end}, 2 * each
        else:
            yield {number: begin}, {number: middle}, each
            yield {number: middle}, {number: end}, each


def _within(
    log: Log, ends: tuple[dict[int, int], dict[int, int]], few: int, limits: tuple[int, float]
) -> Iterator[Message]:
    """Yield the first records of a range, as far as their bytes and the time allow."""
    places, deadline = limits
    left = max(MOST_BYTES // (2 * places), TOO_FEW)
    if time.monotonic() > deadline:
        return
    for message in islice(log.records(*ends), few):
        yield message
        left -= len(message.value() or b"")
        if left < 0 or time.monotonic() > deadline:
            return


def _of_message(message: Message, topic: str) -> Seen:
    kind, moment = message.timestamp()
    has_time = kind != TIMESTAMP_NOT_AVAILABLE
    return Seen(
        topic=topic,
        arrived_at=datetime.fromtimestamp(moment / 1000, UTC) if has_time else None,
        payload=_bytes(message.value()),
        key=_bytes(message.key()),
        headers=tuple((each[0], _bytes(each[1])) for each in message.headers() or ()),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def spread(all_of_them: Sequence[int], most: int) -> list[int]:
    """Return at most so many of them, spread evenly; the first and the last are among them.

    >>> spread([0, 1, 2, 3, 4, 5, 6], 3)
    [0, 3, 6]
    """
    count = len(all_of_them)
    if count <= most:
        return list(all_of_them)
    places = dict.fromkeys(round(each * (count - 1) / (most - 1)) for each in range(most))
    return [all_of_them[place] for place in places]


def of_bronze(path: Place, table: Ingested, most: int, takes: str = "") -> Sample:
    """Return records of a bronze table, of files that are spread over its time.

    Args:
        path: The folder of the table.
        table: The table.
        most: How many records.
        takes: Of which kind, as bronze has it; of each where it is empty. One that was found by another declaration than today's
            is returned as well: its bytes decide.
    """
    delta = opened(path)
    files = sorted(live_files(delta))
    chosen = [files[place] for place in spread(range(len(files)), PLACES)]
    records: list[Seen] = []
    for file in chosen:
        few = -(-(most - len(records)) // (len(chosen) - chosen.index(file)))
        with session() as duck:
            records += _of_file(duck, file, (table, takes), (few, MOST_BYTES // len(chosen)))
    return Sample(records=records, held=live_rows(path), place=f"{table.id} of the lake")


def _of_file(
    duck: Duck, file: str, of: tuple[Ingested, str], limits: tuple[int, int]
) -> Iterator[Seen]:
    (table, takes), (few, left) = of, limits
    columns = view_of(duck, "records", [file])
    where = ""
    if takes and KIND in columns:
        today = ", ".join(literal(text_of(each)) for each in table.kind_by.values())
        where = f" WHERE {KIND} = {literal(takes)} OR {KIND_BY} NOT IN ({today})"
    rows = duck.execute(
        f"SELECT _topic, _arrived_at, _payload, _message_key, _headers FROM records{where} LIMIT {few}"  # noqa: S608  # literals of our own
    )
    while found := rows.fetchmany(200):
        for topic, arrived_at, payload, key, headers in found:
            yield Seen(
                topic=topic,
                arrived_at=arrived_at.replace(tzinfo=UTC) if arrived_at else None,
                payload=payload,
                key=key,
                headers=tuple((each["key"], each["value"]) for each in headers or ()),
            )
            left -= len(payload or b"")
        if left < 0:
            return
