"""The rows that commits of a table changed, read from its log and its files, without a JVM.

A commit that only adds files brings their rows. One that replaces files is compared: rows that are in what came and were not in
what went have changed, keys that are in what went alone are gone. So a repair of a day sends the rows that it made
otherwise and no others, and a commit that changes no row (files are put together) sends nothing.

The order is the same whenever a commit is read, so that a reader goes on at the row where it stopped: a file after the other as
in the log, and of a comparison in the order of the key. A file is read in chunks; a comparison spills to the disk.

Why not Delta's own change feed: it must be switched on before the commits, writes the rows of each replaced file a second time,
and its columns and versions are those of Spark's reader, which a process beside the stream would have to start.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from strandline.core.errors import DataError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.log_actions import file_of
from strandline.engine.lake.read.duckdb_table import (
    Duck,
    declared_columns,
    let_read,
    literal,
    session,
    spilling,
)
from strandline.engine.lake.read.open_table import live_files, opened, statistics

CHUNK = 200
"""Rows that are fetched at once."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a table: its rows if the log counts them, and the values of the table's partition columns."""

    path: str
    rows: int | None
    parts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """A row that changed, with the values of the wanted columns in their order; of one that is gone those of the key alone."""

    values: tuple[object, ...]
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What is read of a table's rows.

    Args:
        kinds: The wanted columns, the key first, with DuckDB's names of their types.
        key: How many of them are the key.
    """

    kinds: Mapping[str, str]
    key: int


@dataclass(frozen=True, slots=True)
class Range:
    """A range of a column with moments; the end lies outside."""

    column: str
    since: datetime
    until: datetime


def columns_of(path: Place, key: Sequence[str]) -> Columns:
    """Return the columns of a table's latest version that are read: its key, and all that are the user's own."""
    with session() as duck:
        found = declared_columns(duck, "rows", opened(path))
    names = [*key, *(each for each in found if each[0] != "_")]
    return Columns(kinds={name: found[name] for name in dict.fromkeys(names)}, key=len(key))


def changed_rows(path: Place, version: int, columns: Columns, skip: int = 0) -> Iterator[list[Row]]:
    """Yield the rows that a version changed, without the first of them.

    Raises:
        DataError: The commit or one of its files is gone.
    """
    try:
        found = [*actions(path, version, Kind.ADD, Kind.REMOVE)]
    except FileNotFoundError as error:
        raise _gone(path, version) from error
    # Asked of the commit, not of each file: one that an undo brings back is still noted as put together, and its rows came.
    if not any(each.body.get("dataChange", True) for each in found):
        return
    came, went = (
        [_of_log(path, each.body) for each in found if each.kind is kind]
        for kind in (Kind.ADD, Kind.REMOVE)
    )
    _refuse_gone(path, version, [*came, *went])
    if not went:
        yield from _rows_of(came, columns, skip)
        return
    key = ", ".join(f'"{name}"' for name in [*columns.kinds][: columns.key])
    with spilling() as duck:
        duck.execute(f"CREATE VIEW old AS {_union(duck, went, columns)}")
        duck.execute(f"CREATE VIEW new AS {_union(duck, came, columns)}")
        yield from _asked(
            duck,
            f"(SELECT true AS __gone, * FROM (SELECT {key} FROM old EXCEPT SELECT {key} FROM new) UNION ALL BY NAME "  # noqa: S608  # our own names
            f"SELECT false AS __gone, * FROM (FROM new EXCEPT FROM old)) ORDER BY __gone DESC, {key} OFFSET {skip}",
            columns,
        )


def all_rows(
    path: Place, version: int, columns: Columns, skip: int = 0, *, within: Range | None = None
) -> Iterator[list[Row]]:
    """Yield the rows that a table has at a version, without the first of them.

    Args:
        path: The table.
        version: The version.
        columns: What is read of its rows.
        skip: How many are left out.
        within: The range of a column that the rows lie in.

    Raises:
        DataError: One of its files is gone.
    """
    table = opened(path, version)
    parts = table.metadata().partition_columns
    of_log = {_name(each["path"]): each for each in pa.table(statistics(table)).to_pylist()}
    files = [
        File(file, one["num_records"], {name: one[f"partition.{name}"] for name in parts})
        for file in sorted(live_files(table))
        for one in (of_log[_name(file)],)
    ]
    _refuse_gone(path, version, files)
    yield from _rows_of(files, columns, skip, within)


def _gone(path: Place, version: int) -> DataError:
    return DataError(
        f"what version {version:,} of {path.parent.name}.{path.name} changed cannot be read any more: files that only older "
        "versions had were deleted",
        hint="`strandline publish NAME --again` sends all rows as they are now.",
        version=version,
    )


def _refuse_gone(path: Place, version: int, files: Sequence[File]) -> None:
    if not all(Place.of(file.path).exists() for file in files):
        raise _gone(path, version)


def _of_log(path: Place, body: Mapping[str, Any]) -> File:
    stats = json.loads(body.get("stats") or "{}")
    return File(file_of(path, body), stats.get("numRecords"), body.get("partitionValues") or {})


def _name(path: str) -> str:
    return unquote(path).rpartition("/")[2]


def _rows_of(
    files: Sequence[File], columns: Columns, skip: int, within: Range | None = None
) -> Iterator[list[Row]]:
    for file in files:
        if within is None and file.rows is not None and skip >= file.rows:
            skip -= file.rows
            continue
        with session() as duck:
            sql = f"SELECT false, * FROM ({_select(duck, file, columns, within)})"  # noqa: S608  # our own names
            for rows in _asked(duck, sql, columns):
                if left := rows[skip:]:
                    yield left
                skip = max(0, skip - len(rows))


def _asked(duck: Duck, sql: str, columns: Columns) -> Iterator[list[Row]]:
    found = duck.execute(sql)
    while rows := found.fetchmany(CHUNK):
        yield [
            Row(tuple(values[: columns.key] if is_gone else values), is_gone)
            for is_gone, *values in rows
        ]


def _union(duck: Duck, files: Sequence[File], columns: Columns) -> str:
    """Return the SQL for the rows of some files; where there is none, for the columns without a row."""
    nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in columns.kinds.items())
    selected = [_select(duck, file, columns) for file in files]
    return " UNION ALL ".join(selected or [f"SELECT {nothing} WHERE false"])


def _select(duck: Duck, file: File, columns: Columns, within: Range | None = None) -> str:
    """Return the SQL for the rows of a file, each column with the type that the table declares.

    A value of a former type that is none of that is NULL: the commit that changed the type has all rows as they are since.
    """
    let_read(duck, [file.path])
    read = f"read_parquet({literal(file.path)}, hive_partitioning = false)"
    there = {str(name) for name, *_ in duck.execute(f"DESCRIBE FROM {read}").fetchall()}

    def value(name: str) -> str:
        if name in file.parts:
            return literal(file.parts[name])
        return f'"{name}"' if name in there else "NULL"

    wanted = ", ".join(
        f'TRY_CAST({value(name)} AS {kind}) AS "{name}"' for name, kind in columns.kinds.items()
    )
    chosen = "true"
    if within is not None:
        at = f"CAST({value(within.column)} AS TIMESTAMPTZ)"
        chosen = f"{at} >= {_moment(within.since)} AND {at} < {_moment(within.until)}"
    return f"SELECT {wanted} FROM {read} WHERE {chosen}"  # noqa: S608  # our own names


def _moment(at: datetime) -> str:
    return f"TIMESTAMPTZ '{at.isoformat()}'"
