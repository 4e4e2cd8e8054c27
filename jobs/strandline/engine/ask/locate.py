"""Locate one record: the commit of bronze that took it in, the batch that read it, the row that it became; and say so as a verdict.

The original of a copy is found without parsing the payload: both have the same key, so the bytes of the copy contain
the original's key, whether they are JSON, cells or Avro. The lateness rule bounds the event times of both, so the
search reads an hour and not the table.
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import islice
from typing import Any

import confluent_kafka
from strandline import catalog

from strandline.core.kind import shifted
from strandline.core.routes import KIND, KIND_BY, text_of
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import IDENTITY, ITEM, PLACE, Topic
from strandline.engine.accounting.browse_held import withheld
from strandline.engine.accounting.held_records import has_items, still_held
from strandline.engine.accounting.table_books import Books
from strandline.engine.flow.function_plan import hidden
from strandline.engine.kafka.topic_log import Log, consumer
from strandline.engine.lake.duckdb_table import Duck, literal, session, view_of
from strandline.engine.lake.find_rows import (
    Found,
    Where,
    batch_of,
    bringing_commit,
    commit_with,
    look,
    look_in,
    newest_first,
    reading_batch,
    version_of,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import (
    LOOKED_AGAIN,
    Entry,
    between,
    entry_at,
    is_imported,
    is_table,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import added, files_between, removed
from strandline.engine.lake.open_table import kinds, live_files, live_rows, opened
from strandline.engine.lake.place import Place
from strandline_quality import mask

PLAIN = re.compile(r"[\w .:@-]+", re.ASCII)

RECENT = 20
"""The number of batches from which a table's rate is computed."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int
    item: int | None = None
    """The place of an item in the list of the record, where one is asked for."""

    @property
    def part(self) -> str:
        """Return the name of the topic partition as in the ledger."""
        return f"{self.topic}/{self.partition}"

    @property
    def where(self) -> dict[str, object]:
        """Return the columns that identify the record in a row."""
        return {"_topic": self.topic, "_partition": self.partition, "_offset": self.offset}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Spot":
        """Return the spot of a row's record."""
        return cls(row["_topic"], row["_partition"], row["_offset"])

    def __str__(self) -> str:
        """Return it as a user types it."""
        item = "" if self.item is None else f"/{self.item}"
        return f"{self.part}/{self.offset}{item}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """The commit of bronze whose range contains an offset, and the record; None if the offset has no record."""

    version: int
    entry: Entry
    record: Found | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A row that a commit removed from its table."""

    version: int
    entry: Entry
    row: Found


def taken_in(bronze: Place, spot: Spot) -> TakenIn | None:
    """Return the commit that took in an offset; None if none did."""
    found = commit_with(bronze, spot.part, spot.offset)
    if found is None:
        return None
    version, entry = found
    where = Where(equal=spot.where)
    # Files that maintenance has put together stay on the disk for a day, and are not the table's any more.
    rows = look(bronze, where, among=added(bronze, version).files) or look(bronze, where)
    return TakenIn(version=version, entry=entry, record=rows[0] if rows else None)


def offsets_read(bronze: Table, lake: Lake, spot: Spot) -> tuple[int, int] | None:
    """Return the first offset of a partition that bronze read, and the one after the last."""
    sheet = Books(bronze, lake).follow().sheet
    return (sheet.starts[spot.part], sheet.ends[spot.part]) if spot.part in sheet.ends else None


def reading_commit(
    silver: Judged, lake: Lake, spot: Spot, version: int
) -> tuple[int, Entry] | None:
    """Return the commit of a judging table that has read an offset, which came with a version of bronze; None if none has."""
    (bronze,) = silver.reads
    path = lake.table(silver)
    if is_imported(spot.part):
        return bringing_commit(path, spot.part, spot.offset)
    return reading_batch(path, bronze.id, version)


def unread_records(silver: Judged, lake: Lake, key: Sequence[str], first: int) -> list[Found]:
    """Return the records with a key that came to bronze from a version on and that a judging table has not read.

    Maintenance may have put their files together with others since, so the ledger is asked about each.
    """
    (source,) = silver.reads
    bronze = lake.table(source)
    came, _ = files_between(bronze, first, latest_version(bronze))
    records = records_with_key(bronze, key, came) if came else []
    return [each for each in records if not _is_read(silver, lake, bronze, Spot.of(each.row))]


def _is_read(silver: Judged, lake: Lake, bronze: Place, spot: Spot) -> bool:
    taken = commit_with(bronze, spot.part, spot.offset)
    return taken is not None and reading_commit(silver, lake, spot, taken[0]) is not None


def rows_since(source: Place, first: int) -> int:
    """Return how many rows were appended to a table from a version on."""
    return sum(entry.appended for entry in between(source, first, latest_version(source)))


def rows_per_second(table: Place) -> float | None:
    """Return how many rows a second a table read or left to others in its recent batches; None if it never ran."""
    batches = (
        (entry.read + entry.others, entry.duration_ms)
        for _, entry in newest_first(table)
        if not entry.is_passed_over and entry.duration_ms
    )
    recent = [*islice((each for each in batches if each[0]), RECENT)]
    seconds = sum(took for _, took in recent) / 1000
    return sum(rows for rows, _ in recent) / seconds if recent else None


def first_version(table: Table, lake: Lake, row: Found) -> int | None:
    """Return the version in which a row first came, before all commits that only rewrote its file.

    None where it is unknown: the files of the row were put together since, and it is no row of an event.
    """
    path = lake.table(table)
    names = PLACE if isinstance(table, Judged) else (*table.key, str(table.event_at))
    same = Where(equal={name: row.row[name] for name in names})
    until: int | None = None  # after a step back only earlier versions: an undo adds a file again
    while True:
        version = version_of(path, row.file, until)
        if version is None and isinstance(table, Judged):
            spot, (bronze,) = Spot.of(row.row), table.reads
            return batch_of(path, lake.table(bronze), spot.part, spot.offset)
        entry = entry_at(path, version) if version else None
        if not version or entry is None or not (entry.is_passed_over or entry.replaced):
            return version
        before = look_in(removed(path, version), same, names)
        if not before:
            return version
        row, until = before[0], version - 1


def silver_row(
    silver: Judged, lake: Lake, record: Mapping[str, Any], item: int | None = None
) -> Found | None:
    """Return the silver row that a record of bronze became, or one of its items."""
    found = look(lake.table(silver), _same(record))
    return next((each for each in found if item is None or each.row.get(ITEM) == item), None)


def held_record(
    silver: Judged, lake: Lake, record: Mapping[str, Any], item: int | None = None
) -> Found | None:
    """Return the row of a record that the quarantine still holds, discarded or not; of an item where it holds that by itself."""
    kept = still_held(silver, lake, look(lake.quarantine(silver), _same(record)))
    own = [each for each in kept if each.row.get(ITEM) == item]
    return next(reversed(own or [each for each in kept if each.row.get(ITEM) is None]), None)


def held_items(silver: Judged, lake: Lake, record: Mapping[str, Any]) -> list[Found]:
    """Return the items of a believed record that the quarantine still holds, in the order of the list."""
    if not is_table(lake.quarantine(silver)) or not has_items(lake.quarantine(silver)):
        return []
    kept = still_held(silver, lake, look(lake.quarantine(silver), _same(record)))
    items = [each for each in kept if each.row.get(ITEM) is not None]
    return sorted(items, key=lambda each: int(each.row[ITEM]))


def _same(record: Mapping[str, Any]) -> Where:
    at = record["_arrived_at"]
    return Where(equal=Spot.of(record).where, within={"_arrived_at": (at, at)})


def original(silver: Judged, lake: Lake, record: Mapping[str, Any]) -> Found | None:
    """Return the row that a record is a copy of: the one with the same key and event time."""
    at, moment = record["_arrived_at"], silver.event_at
    law, payload = silver.lateness, record["_payload"] or b""
    rows = look(
        lake.table(silver),
        Where(
            within={moment: (shifted(at, -law.late), shifted(at, law.early))},
            named=(silver.key, payload),
        ),
        dict.fromkeys((*silver.key, moment, *IDENTITY)),
    )
    similar = [
        row for row in rows if all(contains_key(payload, str(row.row[n])) for n in silver.key)
    ]
    return min(similar, key=lambda each: _mismatch(each.row, silver, payload), default=None)


def _mismatch(row: Mapping[str, Any], silver: Judged, payload: bytes) -> tuple[bool, bool, int]:
    """Rank candidate originals: the smallest tuple matches the payload best; a longer key matches better."""
    fields = json_fields(payload)
    same_key = all(str(fields.get(name)) == str(row[name]) for name in silver.key)
    same_time = _moment(fields.get(silver.event_at)) == row[silver.event_at]
    return not same_key, not same_time, -sum(len(str(row[name])) for name in silver.key)


def has_fields(payload: bytes, key: Sequence[str]) -> bool:
    """Return whether a payload is JSON and has the fields of a key."""
    return all(name in json_fields(payload) for name in key)


def has_another(payload: bytes, key: Mapping[str, object]) -> bool:
    """Return whether a payload's key is another one, so that it only mentions this key in another field."""
    fields = json_fields(payload)
    both = [(fields.get(name), value) for name, value in key.items()]
    return any(
        isinstance(there, str)
        and isinstance(here, str)
        and there.strip().casefold() != here.strip().casefold()
        for there, here in both
    )


def json_fields(payload: bytes) -> Mapping[str, Any]:
    """Return the fields of a JSON payload; none for any other format."""
    try:
        fields = json.loads(payload)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def contains_key(payload: bytes, key: str) -> bool:
    """Return whether a payload contains a key as a word; Avro writes a text's length before it, and nothing after it."""
    text = key.encode()
    word = re.escape(text)
    by_length = re.escape(bytes([min(2 * len(text), 255)]))
    return re.search(rb"(?<![\w-])" + word + rb"(?![\w-])|" + by_length + word, payload) is not None


def records_with_key(
    path: Place, key: Sequence[str], among: Collection[str] | None = None
) -> list[Found]:
    """Return the records whose payloads contain a key, in all of a table or in some of its files."""
    rows = look(path, Where(names={"_payload": _longest_plain_piece(key)}), among=among)
    forms = [(part, json.dumps(part)[1:-1]) for part in key]
    return [
        row
        for row in rows
        if all(any(contains_key(row.row["_payload"], one) for one in form) for form in forms)
    ]


def _longest_plain_piece(key: Sequence[str]) -> str:
    """Return the longest piece of a key that every JSON writer writes unescaped."""
    return max((piece for part in key for piece in PLAIN.findall(part)), key=len, default="")


def removed_row(table: Place, where: Where) -> Removed | None:
    """Return a removed row, with the last commit that replaced it."""
    sums = sums_of(table)
    if not sums.was_rewritten and sums.replaced_at < 0:
        return None
    for version, entry in newest_first(table):
        removes_rows = entry.is_passed_over or entry.replaced
        # A repeated look-up keeps every row and changes only the columns of the dimension.
        if not removes_rows or entry.mode == LOOKED_AGAIN:
            continue
        rows = look_in(removed(table, version), where, kinds(table))
        # A file is rewritten as a whole, and most of its rows remain; those that a later commit removed were found there.
        remaining = [each.row for each in look(table, where)] if rows else []
        rows = [each for each in rows if each.row not in remaining]
        if rows:
            return Removed(version=version, entry=entry, row=rows[0])
    return None


# A verdict from a closed list, one sentence, and the evidence for it.
#
# The list is closed because programs act on it: an alert that distinguishes ``late`` from ``not read yet`` needs no
# person. Facts about an event that no verdict expresses are evidence.


Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Show what is being done, the total, and how much is done."""


@contextmanager
def no_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # not shown
    """Show nothing."""
    yield lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of an answer: the lake, the time, and Kafka if its address is known.

    Args:
        lake: The lake.
        now: The current time.
        address: Kafka's address, if known.
        options: The options of Kafka's clients.
        search: Whether bronze may be read record by record.
        progress: Shows the progress of such a search.
        sees_masked: Whether who asks may see what is masked; else no value of a masked column can be asked for.
    """

    lake: Lake
    now: datetime
    address: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    search: bool = True
    progress: Progress = no_progress
    sees_masked: bool = True


class Verdict(StrEnum):
    """Where an event is, or what became of it."""

    NEVER_PRODUCED = "never produced"
    EXPIRED = "expired before it was read"
    NO_RECORD = "not a record"
    NOT_READ_YET = "not read yet"
    SHUT_OUT = "waiting behind a shut gate"
    QUARANTINED = "quarantined"
    LATE = "late"
    EARLY = "early"
    DISORDERED = "disordered"
    DUPLICATE = "duplicate"
    DROPPED = "dropped by the watermark"
    NO_MATCH = "no match in the static table"
    NO_PARTNER = "join partner absent"
    OPEN = "window still open"
    LEFT_OUT = "left out by the table's function"
    SKIPPED = "passed over by a rule"
    OTHER_KIND = "of a kind that another table takes"
    UNROUTED = "of a kind that no table takes"
    NO_KIND = "without a kind"
    IN_TABLE = "in the table"
    REPLACED = "replaced by a backfill"
    DELETED = "deleted by retention"
    FORGOTTEN = "forgotten on request"
    UNACCOUNTED = "unaccounted for"
    """The lake contradicts itself; `strandline ledger` shows where."""
    UNKNOWN = "unknown"
    """It is in no table, and not everything could be searched for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An answer of ``why``.

    Args:
        table: The table that the verdict is about.
        verdict: The verdict.
        sentence: The verdict in one sentence, for a person.
        evidence: The facts behind it, as texts, numbers, lists and mappings.
    """

    table: str
    verdict: Verdict
    sentence: str
    evidence: Mapping[str, object] = field(default_factory=dict)

    def also(self, **more: object) -> "Finding":
        """Return the finding with more evidence."""
        evidence = {**self.evidence, **{name: as_json(value) for name, value in more.items()}}
        return Finding(
            table=self.table, verdict=self.verdict, sentence=self.sentence, evidence=evidence
        )


def make_finding(table: Table, verdict: Verdict, sentence: str, **evidence: object) -> Finding:
    """Return a finding whose evidence consists of JSON values."""
    plain = {name: as_json(value) for name, value in evidence.items()}
    return Finding(table=table.id, verdict=verdict, sentence=sentence, evidence=plain)


def shown_row(table: Table, row: Mapping[str, object], lake: Lake) -> dict[str, object]:
    """Return the columns of a row that may be shown: those that a query masks masked, our own left out."""
    secret = hidden(table, lake)
    return {
        name: mask.mask_value(value) if name in secret else value
        for name, value in row.items()
        if not name.startswith("_")
    }


def shown_payload(
    table: Table, value: object, columns: Collection[str] = ()
) -> dict[str, object] | None:
    """Return a payload's size, and its text with all that may be sensitive masked.

    Args:
        table: The table of the payload.
        value: The bytes, if any.
        columns: The table's columns; a field with another name may hold anything and is masked.
    """
    if not isinstance(value, bytes):
        return None
    known, secret = table.shown(columns), withheld(table, catalog.tables())
    return {"bytes": len(value), "text": mask.payload(value, secret, known)}


def as_json(value: object) -> object:
    """Return a value in types that JSON has."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {str(name): as_json(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(each) for each in value]
        case _:
            return str(value)


# Some records of a topic, from the lake or from Kafka, for a person who wants to know what they are like; without a JVM.
#
# What is read is bounded: a number of records, of bytes and of seconds, whatever the topic holds. They come from the begin and the
# end of the log, and of each partition alike, because a producer changes with time and a partition may have one customer.

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
) -> "Iterator[confluent_kafka.Message]":
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


def _of_message(message: "confluent_kafka.Message", topic: str) -> Seen:
    kind, moment = message.timestamp()
    has_time = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
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
