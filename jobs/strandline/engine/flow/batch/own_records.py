"""Which records of bronze are of the kinds that a table takes: counted in bronze's files, apart from the stream that chooses them.

DuckDB reads places and kinds alone, at a fifth of a microsecond a record, and each place is hashed as Spark hashes it: so what left
a table's function can be compared with what bronze has for it, without a look at the records of other tables on the way.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Any, TypeAlias

import numpy as np

from strandline.core.routes import KIND, KIND_BY, AllBut, Takes, kinds_named, text_of
from strandline.core.table import Ingested, Judged
from strandline.engine.lake.read.duckdb_table import Peek, literal, peek_files

Numbers: TypeAlias = "np.ndarray[Any, Any]"

SEED, EIGHT = 42, 8
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
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
    topic, _, partition = part.rpartition("/")
    seed = _hashed(np.array([int(partition)]), _hashed_topic(topic))[0]
    found = np.uint64(0)
    for start in range(first, end, SLICE):
        offsets = np.arange(start, min(start + SLICE, end), dtype=np.int64)
        found ^= np.bitwise_xor.reduce(_hashed(offsets, seed))
    return int(found.astype(np.int64))


def _hashed_topic(topic: str) -> np.uint64:
    found: np.uint64 = _hashed(np.array([zlib.crc32(topic.encode())]), np.uint64(SEED))[0]
    return found


def _hashed(numbers: Numbers, seed: "np.uint64 | Numbers") -> Numbers:
    """Return xxHash of 64-bit numbers, as Spark computes it of one column after another."""
    with np.errstate(over="ignore"):
        hashes = _turned(numbers.view(np.uint64) * P2, 31) * P1
        hashes ^= seed + P5 + np.uint64(EIGHT)
        hashes = _turned(hashes, 27) * P1 + P4
        hashes ^= hashes >> np.uint64(33)
        hashes *= P2
        hashes ^= hashes >> np.uint64(29)
        hashes *= P3
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _turned(numbers: Numbers, by: int) -> Numbers:
    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))
