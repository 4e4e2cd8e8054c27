"""The entry of a commit, made by what the commit does: a step that reads, a copy, a decision, a repair, a removal, a mark; and the records of each kind in it, counted.

Which fields must agree for each of these is stated here and nowhere else, so a caller gives only what is its own, and adds
where the rows went by the methods of an entry (jobs/strandline/engine/lake/log/ledger.py).
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from operator import xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.routes import (
    KIND,
    KIND_BY,
    REST,
    AllBut,
    Takes,
    declared_now,
    found_now,
    kinds_named,
    text_of,
)
from strandline.core.static import Static
from strandline.core.table import Feed, Ingested, Judged, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.routes import takers_of
from strandline.engine.kafka.slices import Part, name_of, range_ends
from strandline.engine.kafka.topic_log import Ranges
from strandline.engine.lake.commit.delta_commit import Written
from strandline.engine.lake.commit.replace_rows import NO_TIME, Reach
from strandline.engine.lake.duckdb_table import Peek, literal, peek_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import added_file
from strandline.engine.lake.log.ledger import BATCH, EXPIRE, FORGET, IMPORT, STATIC, Entry, Offsets
from strandline.engine.lake.log.ledger_sums import MOST_KINDS
from strandline.engine.lake.log.log_actions import file_of
from strandline.engine.runtime.code_files import code_version

if TYPE_CHECKING:
    import numpy as np


def topics_read(  # noqa: PLR0913  # what names a batch, and what it reads
    taker: Table | Feed,
    mode: str,
    stream: str,
    batch: int,
    *,
    topics: Iterable[Topic],
    offsets: Offsets,
) -> Entry:
    """Begin the entry of a step that read ranges of topics."""
    source = ", ".join(topic.name for topic in topics)
    return replace(_entry(taker.id, mode, stream, batch, source), offsets=offsets)


def tables_read(  # noqa: PLR0913  # what names a batch, and what it reads
    table: Table,
    mode: str,
    stream: str,
    batch: int,
    *,
    versions: Mapping[str, tuple[int, int] | None],
    rows: int,
) -> Entry:
    """Begin the entry of a step that read commits of tables; each source is named, also one of which there was nothing to read."""
    read = {source: span for source, span in versions.items() if span}
    begun = _entry(table.id, mode, stream, batch, ", ".join(versions))
    return replace(
        begun,
        versions=read,
        read=rows,
        code=code_version(table),
        keeps_copies=table.keeps_copies,
        listed=table.listed,
        takes=table.takes_in_words,
        routed_by=table.routed_by,
    )


def copied(  # noqa: PLR0913  # what names a batch, and what it has
    table: Table, mode: str, stream: str, batch: int, *, source: str, rows: int
) -> Entry:
    """Return the entry of rows that are brought to a lake of this process as they are elsewhere."""
    return _entry(table.id, mode, stream, batch, source).as_received(rows)


def decided(  # noqa: PLR0913  # what a person decides of a table's topics
    newest: Entry,
    mode: str,
    *,
    stream: str,
    by: str,
    lost: Ranges = MappingProxyType({}),
    begins: Mapping[Part, int] | None = None,
) -> Entry:
    """Return the entry of a decision after a table's newest one, by which no record is read.

    Args:
        newest: The table's newest entry: each partition stays where that ended.
        mode: What was decided.
        stream: The identities of the topics from now on.
        by: Who decided it, when and why.
        lost: What is never read any more.
        begins: Where partitions begin that are read elsewhere from now on.
    """
    read = {**range_ends(newest.offsets), **{part: first for part, (first, _) in lost.items()}}
    at = sorted({**read, **(begins or {})}.items())
    return replace(
        _entry(newest.table, mode, stream, newest.batch + 1, newest.source),
        offsets={name_of(part): lost.get(part, (each, each)) for part, each in at},
        lost={name_of(part): each for part, each in lost.items()},
        accepted=by,
        newest_arrival=newest.newest_arrival,
        code=newest.code,
    )


def repair(table: Table, mode: str, stream: str, source: str, span: tuple[str, str]) -> Entry:
    """Begin the entry of a change to a range of event time, which may be empty, beside the table's own stream."""
    begun = mark_of_range(table, mode, stream, source, span)
    return replace(begun, code=code_version(table), keeps_copies=table.keeps_copies)


def imported(  # noqa: PLR0913  # what names it, and what it brings
    table: Table, stream: str, source: str, *, offsets: Offsets, span: tuple[str, str], rows: int
) -> Entry:
    """Return the entry of records that come to bronze from elsewhere than Kafka, before all that came from there."""
    begun = replace(_entry(table.id, IMPORT, stream, BATCH, source), offsets=offsets)
    return replace(begun, imported=offsets, since=span[0], until=span[1], came=rows).as_received(
        rows
    )


def expired(table: Table, until: str, *, rows: int, released: int) -> Entry:
    """Return the entry of rows that retention deletes: no other row has another value by that."""
    gone = _removal(table, EXPIRE, EXPIRE, rows, released, NO_TIME)
    return replace(gone, until=until, expired=rows)


def forgotten(table: Table, request: str, *, rows: int, released: int, changed: Reach) -> Entry:
    """Return the entry of rows that are deleted on a request, of which it has the hash only."""
    return replace(_removal(table, FORGET, request, rows, released, changed), forgotten=rows)


def content(static: Static, nth: int, source: str, rows: int, at: datetime | None) -> Entry:
    """Return the entry of a version of a static table, which holds from a moment; of all time where it is None."""
    begun = _entry(static.id, STATIC, STATIC, nth, source)
    return replace(begun, holds_from=at.astimezone(UTC).isoformat() if at else "").as_received(rows)


def mark(table: Table, mode: str, stream: str) -> Entry:
    """Return the entry of a decision about held records, which by itself moves no rows."""
    return _entry(table.id, mode, stream, 0, "")


def mark_of_range(
    table: Table, mode: str, stream: str, source: str, span: tuple[str, str]
) -> Entry:
    """Return the entry which says that something was done for a range of event time, and moves no rows."""
    return replace(_entry(table.id, mode, stream, 0, source), since=span[0], until=span[1])


def _removal(  # noqa: PLR0913, PLR0917  # what both removals have
    table: Table, mode: str, stream: str, rows: int, released: int, changed: Reach
) -> Entry:
    """Return what is said of rows that go for good: what was read and where it went stays in the books."""
    return replace(
        _entry(table.id, mode, stream, 0, ""),
        since="",
        written=-rows,
        released=released,
        changed=changed,
        code=code_version(table),
    )


def _entry(table: str, mode: str, stream: str, batch: int, source: str) -> Entry:
    return Entry(table=table, mode=mode, stream=stream, batch=batch, source=source)


# Count the records of each kind that come to bronze, by the kind that was written beside each.
#
# The files that were just written are asked, by DuckDB, apart from the streams that will part the records: so bronze counts what it
# has, and a table what it reads (jobs/strandline/engine/accounting/routes.py compares the two). To count 50,000 records takes a
# few milliseconds, because only one column is read.


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The records of each kind in a commit of bronze, as its entry has them."""

    kinds: dict[str, int] = field(default_factory=dict)
    unrouted: dict[str, int] = field(default_factory=dict)
    unrouted_more: int = 0
    kindless: int = 0


def with_kinds(records: DataFrame, table: Ingested) -> DataFrame:
    """Give records the columns of bronze with their kind and its declaration, where the topics have kinds."""
    if not table.has_kinds:
        return records
    by = table.kind_by
    return records.withColumns({KIND: found_now(by), KIND_BY: declared_now(by)})


def kinds_in(table: Ingested, lake: Lake, written: Written) -> Kinds:
    """Count the records of each kind in files that were just written: of kinds that a table takes, and of others."""
    if not table.has_kinds or written.is_empty:
        return Kinds()
    path, takers = lake.table(table), takers_of(table, lake)
    peeked = peek_files([file_of(path, added_file(each)) for each in written.files], "records")
    ((every, has_kind),) = peeked.ask(f"SELECT count(*), count({KIND}) FROM records")  # noqa: S608  # our own names
    known = [*dict.fromkeys([*kinds_taken(takers), *_kept_from_rest(takers)])]
    found = _by_kind(peeked, known)
    commonest = {} if takes_rest(takers) else _by_kind(peeked, known, others=True)
    return shared_out(
        takers,
        {**found, **commonest},
        kindless=int(str(every)) - int(str(has_kind)),
        all_kinds=int(str(has_kind)),
    )


def with_kinds_gone(entry: Entry, rows: DataFrame, table: Table, lake: Lake) -> Entry:
    """Say in the entry of a removal of which kinds the rows are that go, as far as no table takes these.

    What tables take is counted on: they have read it.

    Args:
        entry: The entry.
        rows: The rows of bronze that go.
        table: Their table.
        lake: Its lake.
    """
    if not isinstance(table, Ingested) or not table.has_kinds:
        return entry
    counted = rows.where(F.col(KIND_BY) == declared_now(table.kind_by))
    by_kind = counted.groupBy(KIND).count().collect()
    known = {str(row[KIND]): int(row["count"]) for row in by_kind if row[KIND] is not None}
    kindless = sum(int(row["count"]) for row in by_kind if row[KIND] is None)
    gone = shared_out(
        takers_of(table, lake), known, kindless=kindless, all_kinds=sum(known.values())
    )
    return replace(
        entry,
        unrouted={kind: -n for kind, n in gone.unrouted.items()},
        unrouted_more=-gone.unrouted_more,
        kindless=-gone.kindless,
    )


def shared_out(
    takers: Sequence[Judged], found: dict[str, int], *, kindless: int, all_kinds: int
) -> Kinds:
    """Return how many records came of each kind that a table takes, of others, and without one.

    Args:
        takers: The tables that take kinds of them.
        found: The records by kind: of all that a table names, and of the commonest others.
        kindless: The records without a kind.
        all_kinds: Those with one.
    """
    taken = {kind: found.get(kind, 0) for kind in kinds_taken(takers)}
    others = {kind: rows for kind, rows in found.items() if kind not in taken}
    if takes_rest(takers):
        kept_from_rest = _kept_from_rest(takers)
        others = {kind: rows for kind, rows in others.items() if kind in kept_from_rest}
        taken[REST] = all_kinds - sum(taken.values()) - sum(others.values())
    named = sorted(others, key=lambda kind: (-others[kind], kind))[:MOST_KINDS]
    others = {kind: others[kind] for kind in named}
    more = all_kinds - sum(taken.values()) - sum(others.values())
    return Kinds(kinds=taken, unrouted=others, unrouted_more=more, kindless=kindless)


def kinds_taken(takers: Sequence[Judged]) -> list[str]:
    """Return the kinds that tables name to take."""
    return sorted({kind for each in takers for kind in kinds_named(each.takes)})


def takes_rest(takers: Sequence[Judged]) -> bool:
    """Return whether a table takes all other kinds."""
    return any(isinstance(each.takes, AllBut) for each in takers)


def _kept_from_rest(takers: Sequence[Judged]) -> set[str]:
    """Return the kinds that the table of all others leaves out."""
    rest = [each.takes for each in takers]
    return {kind for each in rest if isinstance(each, AllBut) for kind in each.others}


def _by_kind(peeked: Peek, kinds: Sequence[str], *, others: bool = False) -> dict[str, int]:
    """Count the records of some kinds, or of the commonest others."""
    among = f"IN ({', '.join(map(literal, kinds))})" if kinds else "IS NULL"
    rows = peeked.ask(
        f"""
        SELECT {KIND}, count(*) AS rows FROM records
        WHERE {KIND} IS NOT NULL AND {"NOT" if others else ""} ({KIND} {among})
        GROUP BY {KIND} ORDER BY rows DESC, {KIND} LIMIT {MOST_KINDS if others else len(kinds)}
        """  # noqa: S608  # our own names and literals
    )
    return {str(kind): int(str(count)) for kind, count in rows}


# Which records of bronze are of the kinds that a table takes: counted in bronze's files, apart from the stream that chooses them.
#
# DuckDB reads places and kinds alone, at a fifth of a microsecond a record, and each place is hashed as Spark hashes it: so what left
# a table's function can be compared with what bronze has for it, without a look at the records of other tables on the way.


Numbers: TypeAlias = "np.ndarray[Any, Any]"

SEED, EIGHT = 42, 8
PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
"""The constants of xxHash, and the seed with which Spark begins."""

SLICE = 1 << 16
"""How many hashes are held at once."""

Mark = tuple[int, int]
"""A number of records, and the XOR of the hashes of their places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The records of a batch that are a table's own.

    Args:
        mark: Their number, and their places.
        others: How many records beside them are of other kinds, or of none.
        kinds: Those of each kind that the table names.
    """

    mark: Mark
    others: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)


def kinds_read(table: Judged) -> list[str]:
    """Return the kinds that a table names to read, in their order."""
    return [kind for each in table.taken for kind in kinds_named(each)]


def own_in(files: Sequence[str], table: Judged) -> Own | None:
    """Count a table's own records in files of bronze; None where a record was kept without a kind, or by another declaration."""
    named = kinds_read(table)
    with peek_files(files, "records") as peeked:
        columns = {str(name) for name, *_ in peeked.ask("DESCRIBE records")}
        if KIND_BY not in columns:
            return None
        is_of = [_is_known(table.bronze), *(f"{KIND} = {literal(each)}" for each in named)]
        counts = ", ".join(f"count(*) FILTER ({each})" for each in is_of)
        ((every, known, *kinds),) = peeked.ask(f"SELECT count(*), {counts} FROM records")  # noqa: S608  # our own names and literals
        if every != known:
            return None
        rows, places = _mark_of(peeked, " OR ".join(map(_is_taken, table.taken)))
    return Own(
        mark=(rows, places),
        others=int(str(every)) - rows,
        kinds={kind: int(str(n)) for kind, n in zip(named, kinds, strict=True)},
    )


def _is_known(bronze: Ingested) -> str:
    """Return the SQL of whether the kind of a record is that of today (``with_kind`` in jobs/strandline/core/routes.py)."""
    (_, first), *others = ((name, literal(text_of(by))) for name, by in bronze.kind_by.items())
    whens = "".join(f" WHEN _topic = {literal(name)} THEN {text}" for name, text in others)
    now = f"CASE{whens} ELSE {first} END" if whens else first
    read = ", ".join(map(literal, bronze.kind_by))
    return f"{KIND_BY} = {now} OR ({KIND_BY} IS NOT NULL AND _topic NOT IN ({read}))"


def _is_taken(takes: Takes) -> str:
    kinds = ", ".join(map(literal, takes.others if isinstance(takes, AllBut) else takes))
    if isinstance(takes, AllBut):
        return f"({KIND} NOT IN ({kinds}))" if kinds else f"({KIND} IS NOT NULL)"
    return f"({KIND} IN ({kinds}))" if kinds else "false"


def _mark_of(peeked: Peek, where: str) -> Mark:
    """Return the number of some records, and the XOR of Spark's hashes of their places."""
    import numpy as np  # noqa: PLC0415  # it takes longer to load than most answers, and few tables are chosen from

    topics = [str(name) for (name,) in peeked.ask("SELECT DISTINCT _topic FROM records")]
    seeds = np.array([_hashed_topic(each) for each in topics], dtype=np.uint64)
    listed = ", ".join(map(literal, topics))
    rows, places = 0, np.uint64(0)
    for topic, partition, offset in peeked.columns(
        f"SELECT list_position([{listed}], _topic) - 1, _partition::BIGINT, _offset FROM records WHERE {where}",  # noqa: S608  # our own names and literals
        SLICE,
    ):
        rows += len(offset)
        places ^= np.bitwise_xor.reduce(_hashed(offset, _hashed(partition, seeds[topic])))
    return rows, int(places.astype(np.int64))


def of_ranges(places: Mapping[str, tuple[int, int]]) -> int:
    """Return the XOR of Spark's hashes of the places of all offsets of some ranges."""
    return reduce(xor, (_of_range(part, *ends) for part, ends in places.items()), 0)


def _of_range(part: str, first: int, end: int) -> int:
    import numpy as np  # noqa: PLC0415  # as above

    topic, _, partition = part.rpartition("/")
    seed = _hashed(np.array([int(partition)]), _hashed_topic(topic))[0]
    found = np.uint64(0)
    for start in range(first, end, SLICE):
        offsets = np.arange(start, min(start + SLICE, end), dtype=np.int64)
        found ^= np.bitwise_xor.reduce(_hashed(offsets, seed))
    return int(found.astype(np.int64))


def _hashed_topic(topic: str) -> "np.uint64":
    import numpy as np  # noqa: PLC0415  # as above

    found: np.uint64 = _hashed(np.array([zlib.crc32(topic.encode())]), np.uint64(SEED))[0]
    return found


def _hashed(numbers: Numbers, seed: "np.uint64 | Numbers") -> Numbers:
    """Return xxHash of 64-bit numbers, as Spark computes it of one column after another."""
    import numpy as np  # noqa: PLC0415  # as above

    p1, p2, p3, p4, p5 = (np.uint64(prime) for prime in PRIMES)
    with np.errstate(over="ignore"):
        hashes = _turned(numbers.view(np.uint64) * p2, 31) * p1
        hashes ^= seed + p5 + np.uint64(EIGHT)
        hashes = _turned(hashes, 27) * p1 + p4
        hashes ^= hashes >> np.uint64(33)
        hashes *= p2
        hashes ^= hashes >> np.uint64(29)
        hashes *= p3
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _turned(numbers: Numbers, by: int) -> Numbers:
    import numpy as np  # noqa: PLC0415  # as above

    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))
