"""The heaviest keys of what the newest batches of a table read: the rows of one key are the work of one core.

Asked of the files of a few commits, when a person asks: a batch pays nothing for it, and no value of a key is kept anywhere, so a
request to forget has nothing to look for. A sketch of bounded memory (DuckDB's ``approx_top_k``) finds the candidates, and a second look
at the same files counts them: so each number is exact, and a key with a hundredth of the rows is not missed.

Files are taken by whole commits, the newest first, until there are enough rows: the files of one commit hold each its own keys, so
some of them alone would make any key look heavy.
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import PLACE
from strandline.engine.ask.lake_views import Source
from strandline.engine.lake.duckdb_table import quoted, spilling, unreadable_errors, view_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.log.log_actions import appended
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place

ENOUGH = 200_000
"""Rows with which no further commit is looked at."""

LOOKED_AT = 200
"""The most commits that are looked at."""

MOST_FILES = 500
"""The most files; of a commit with more every so-manieth is read, and the answer says of how many."""

CANDIDATES = 100
"""Keys that the sketch returns. What it counts for all keys together is the number of rows, so no more than a hundred can have a
hundredth of it."""

LONG = 100
"""Letters of a value that are shown; two longer ones differ by a hash of the whole."""

RECORDS = ("_topic", "_message_key")
"""By which records of Kafka fall into partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyKey:
    """A key that many rows have.

    Args:
        of: The values of its columns, as texts; hashes of those that are masked.
        rows: How many rows have it.
        share: Which part of the rows that is.
    """

    of: dict[str, str | None]
    rows: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyKeys:
    """The heaviest keys of some rows.

    Args:
        table: The table whose batches read them.
        source: The table that they are in.
        by: The columns of the key; none where no column of the table's key is one of the source.
        versions: The first and the last version that is looked at; None where there is no row.
        rows: How many rows were looked at.
        files: In how many files.
        of_files: How many files these versions have.
        masked: Those of the columns that are masked.
        keys: The heaviest, by their rows.
    """

    table: str
    source: str
    by: tuple[str, ...]
    versions: tuple[int, int] | None = None
    rows: int = 0
    files: int = 0
    of_files: int = 0
    masked: tuple[str, ...] = ()
    keys: tuple[HeavyKey, ...] = ()


@dataclass(slots=True)
class _Rows:
    """Files of whole commits, the newest first."""

    files: list[str] = field(default_factory=list)
    rows: int = 0
    first: int | None = None
    last: int | None = None


def heavy_keys(
    table: Table,
    lake: Lake,
    tables: Collection[Table],
    by: Sequence[str] = (),
    most: int = 10,
) -> Iterator[HeavyKeys]:
    """Yield the heaviest keys of what a table's newest batches read, of each of its sources.

    Of bronze and of silver these are the keys of Kafka's records, of a table above the columns of its own key that its source has. With
    ``by`` it is the source that has these columns, and otherwise the table itself.

    Args:
        table: The table; it exists.
        lake: Its lake.
        tables: All tables of the lake, which decide what is masked.
        by: The columns of the key.
        most: How many keys are returned.

    Raises:
        DefinitionError: Neither a source nor the table has these columns.
    """
    for source in _sources(table, lake, by):
        columns = tuple(by) or _columns(table, source, lake)
        found = _newest(table, source, lake) if columns else _Rows()
        secret = Source(lake.table(source), source).secret(tables, lake)
        masked = tuple(each for each in columns if each in secret)
        yield _answer(table, source, columns, masked, found, most)


def _sources(table: Table, lake: Lake, by: Sequence[str]) -> list[Table]:
    there = [each for each in table.upstream if lake.exists(each)] or [table]
    if not by:
        return there
    found = [each for each in (*there, table) if {*by} <= kinds(lake.table(each)).keys()]
    if not found:
        known = dict.fromkeys(name for each in (*there, table) for name in kinds(lake.table(each)))
        raise DefinitionError(
            f"neither {table.id} nor a table that it reads has {' and '.join(by)}",
            hint=f"they have {', '.join(known)}.",
            table=table.id,
        )
    return found[:1]


def _columns(table: Table, source: Table, lake: Lake) -> tuple[str, ...]:
    if isinstance(source, Ingested):
        return RECORDS
    if isinstance(table, Judged):  # its bronze is gone, so its own rows are asked
        return tuple(each for each in table.key if each not in PLACE)
    names = kinds(lake.table(source))
    return tuple(each for each in table.key if each in names)


def _newest(table: Table, source: Table, lake: Lake) -> _Rows:
    """Return the files of the newest commits of a source that a table has read."""
    path, found, until = lake.table(source), _Rows(), _read_until(table, source, lake)
    for version in range(until, max(until - LOOKED_AT, -1), -1):
        if found.rows >= ENOUGH:
            break
        added = _added(path, version)
        if added is None:
            break
        files, rows = added
        if rows:
            found.files += files
            found.rows += rows
            found.first, found.last = version, version if found.last is None else found.last
    return found


def _added(path: Place, version: int) -> tuple[Sequence[str], int] | None:
    """Return the files that a version added for its readers, and their rows; None where the log begins behind it, or they are gone."""
    try:
        added = appended(path, version)
    except FileNotFoundError:
        return None
    if added is None or not added.rows:
        return (), 0
    # A table whose rows are replaced loses files that maintenance deletes; one of a commit is as good as all.
    return (added.files, added.rows) if Place.of(added.files[0]).exists() else None


def _read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the last version of a source that a table's newest batches read."""
    at: int | None = None
    newest = last_entry(lake.table(source))
    for _ in range(LOOKED_AT if table is not source else 0):
        found = last_entry(lake.table(table), at)
        if found is None:
            break
        at, entry = found[0] - 1, found[1]
        if read := entry.versions.get(source.id):
            return read[1]
        if at < 0:
            break
    return newest[0] if newest else -1


def _answer(  # noqa: PLR0913, PLR0917  # what is asked, of what, and how it is shown
    table: Table,
    source: Table,
    columns: tuple[str, ...],
    masked: tuple[str, ...],
    found: _Rows,
    most: int,
) -> HeavyKeys:
    nothing = HeavyKeys(table=table.id, source=source.id, by=columns, masked=masked)
    if found.first is None or found.last is None:
        return nothing
    step = -(-len(found.files) // MOST_FILES)
    files = found.files[::step]
    try:
        rows, counted = _counted(files, columns)
    except unreadable_errors():  # of a commit of before maintenance may have deleted some
        files = [each for each in files if Place.of(each).exists()]
        rows, counted = _counted(files, columns) if files else (0, [])
    salt = secrets.token_hex()

    def shown(name: str, value: str | None) -> str | None:
        if name not in masked or value is None:
            return value
        return f"[{hashlib.sha256(f'{salt}{value}'.encode()).hexdigest()[:12]}]"

    keys = (
        HeavyKey(
            of={name: shown(name, value) for name, value in zip(columns, values, strict=True)},
            rows=count,
            share=count / rows,
        )
        for values, count in counted[:most]
    )
    return HeavyKeys(
        table=table.id,
        source=source.id,
        by=columns,
        versions=(found.first, found.last),
        rows=rows,
        files=len(files),
        of_files=len(found.files),
        masked=masked,
        keys=tuple(keys),
    )


def _counted(
    files: Sequence[str], columns: Sequence[str]
) -> tuple[int, list[tuple[list[str | None], int]]]:
    """Return the number of rows, and the heaviest of their keys with the rows of each, the heaviest first."""
    with spilling() as duck:
        known = view_of(duck, "looked", files)
        texts = (_text(each) if each in known else "NULL" for each in columns)
        key = f"json_array({', '.join(texts)})::VARCHAR"
        (rows, top), *_ = duck.execute(
            f"SELECT count(*), approx_top_k({key}, {CANDIDATES}) FROM looked"  # noqa: S608  # our own names
        ).fetchall()
        found: list[Any] = duck.execute(
            f"SELECT {key} AS key, count(*) AS n FROM looked WHERE list_contains($top, {key}) GROUP BY 1 ORDER BY n DESC, 1",  # noqa: S608  # as above
            {"top": top or []},
        ).fetchall()
        return rows, [(json.loads(each), count) for each, count in found]


def _text(column: str) -> str:
    """Return a value as a text: a long one cut, with a hash of the whole, as a key may have a megabyte."""
    value = f"CAST({quoted(column)} AS VARCHAR)"
    cut = f"left({value}, {LONG}) || '… ' || left(sha256({value}), 12)"
    return f"CASE WHEN length({value}) > {LONG} THEN {cut} ELSE {value} END"
