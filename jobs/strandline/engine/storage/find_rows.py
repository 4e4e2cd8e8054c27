"""Find a few rows of a large Delta table, and the file of each, without a JVM.

The statistics of all files are compared at once, and only the files that can hold such a row are opened.
Why not the dataset of delta-rs: it makes an object of every file, a second for three thousand, and imports pandas,
another second. Values are literals in the SQL and no parameters for the same reason: DuckDB imports pandas to read one.

Delta truncates the largest time of a file to milliseconds, so a file is skipped only when it ends a millisecond
earlier.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from urllib.parse import unquote

from deltalake import DeltaTable
from duckdb import BinderException

from strandline.core.errors import DefinitionError
from strandline.core.moment import in_utc, shifted
from strandline.engine.storage.duckdb_session import let_read, literal, session
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.open_table import opened, statistics
from strandline.engine.storage.place import Place

CUT = timedelta(milliseconds=1)
FILE = "filename"

Range: TypeAlias = tuple[datetime | None, datetime | None]
"""From one time to another, both included; None leaves a side open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The conditions that a row must meet.

    Args:
        equal: The value of each column; None is NULL.
        within: The range of each column of times.
        names: Columns of bytes, and a text that each must contain.
        named: Columns whose texts some bytes must contain, and the bytes.
        places: Columns, and the values of which a row must have one in each; any row when there are none.
        most: How many rows to return at most; all when None.
    """

    equal: Mapping[str, object] = field(default_factory=dict)
    within: Mapping[str, Range] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    named: tuple[Collection[str], bytes] = ((), b"")
    places: tuple[Sequence[str], Collection[tuple[Any, ...]]] = ((), ())
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A row and its file."""

    file: Place
    row: dict[str, Any]


def look(
    path: Place,
    where: Where,
    columns: Collection[str] = (),
    *,
    version: int | None = None,
    among: Collection[str] | None = None,
) -> list[Found]:
    """Return rows of a table; a file that is missing on disk has none.

    Args:
        path: The table; where it does not exist, the answer is empty.
        where: Which rows.
        columns: Which columns; all when none is named.
        version: The version to read; the latest when None.
        among: The files to search; all when None.
    """
    if not is_table(path):
        return []
    table = opened(path, version)
    ranges = _ranges(where)
    parts = {}
    for action in _actions(table, ranges):
        file = str(path / unquote(action["path"]))
        if (among is None or file in among) and _may_hold(action, ranges):
            parts[file] = _partition(action)
    return look_in(parts, where, columns or _names(table))


def look_in(
    files: Mapping[str, Mapping[str, Any]], where: Where, columns: Collection[str]
) -> list[Found]:
    """Return rows of some files; one that is missing on disk has none.

    Args:
        files: The values of each file's partition columns.
        where: Which rows.
        columns: Which columns.
    """
    parts = {file: dict(values) for file, values in files.items() if Place.of(file).exists()}
    divided = next(iter(parts.values()), {})
    wanted = [name for name in columns if name not in divided]
    return [
        Found(
            Place.of(file), {**dict(zip(wanted, map(_aware, values), strict=True)), **parts[file]}
        )
        for *values, file in (_fetched(wanted, where, parts, divided) if parts else ())
    ]


def heap(path: Place, where: Where) -> dict[str, int]:
    """Return the files that can hold such a row with their numbers of rows, those missing on disk as well."""
    if not is_table(path):
        return {}
    ranges = _ranges(where)
    return {
        str(path / unquote(action["path"])): int(action["num_records"])
        for action in _actions(opened(path), ranges)
        if _may_hold(action, ranges)
    }


def typed(name: str, text: str, kind: str) -> object:
    """Parse a text as a value of a column; an empty text is NULL.

    Raises:
        DefinitionError: The text is no value of the column's type.
    """
    if not text:
        return None
    try:
        if kind.startswith("timestamp"):
            return in_utc(datetime.fromisoformat(text))
        if kind in {"byte", "short", "integer", "long"}:
            return int(text)
        return Decimal(text) if kind.startswith("decimal") else text
    except (ValueError, InvalidOperation) as error:
        raise DefinitionError(
            f"{text!r} is no value of {name}, which is {kind}",
            hint="write moments like 2026-11-01T06:00; a key of several columns has commas between them.",
            column=name,
        ) from error


def _names(table: DeltaTable) -> list[str]:
    return [each.name for each in table.schema().fields]


def _partition(action: Mapping[str, Any]) -> dict[str, Any]:
    divided = {n: v for n, v in action.items() if n.startswith("partition.")}
    return {name.removeprefix("partition."): value for name, value in divided.items()}


def _ranges(where: Where) -> dict[str, tuple[Any, Any]]:
    """Return the lowest and highest value that each column may have."""
    equal = {name: (value, value) for name, value in where.equal.items() if value is not None}
    names, places = where.places
    columns = zip(*places, strict=True)
    among = {name: (min(found), max(found)) for name, found in zip(names, columns, strict=False)}
    return {**where.within, **among, **equal}


def _actions(table: DeltaTable, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield path, partition and statistics of each file."""
    adds = statistics(table)
    wanted = {
        "path",
        "num_records",
        *(f"{kind}.{name}" for name in columns for kind in ("min", "max")),
    }
    names = [n for n in adds.schema.names if n in wanted or n.startswith("partition.")]
    for values in zip(*(adds[name] for name in names), strict=True):
        yield {name: value.as_py() for name, value in zip(names, values, strict=True)}


def _may_hold(action: Mapping[str, Any], ranges: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether a file's statistics allow such a row; a file without statistics may hold it."""
    for name, (low, high) in ranges.items():
        divided = action.get(f"partition.{name}")
        least = action.get(f"min.{name}", divided)
        most = action.get(f"max.{name}", divided)
        if isinstance(most, datetime):
            most = shifted(most, CUT)
        is_below = low is not None and most is not None and most < low
        is_above = high is not None and least is not None and least > high
        if is_below or is_above:
            return False
    return True


def _select(
    wanted: Collection[str],
    where: Where,
    files: Collection[str],
    divided: Collection[str],
    absent: Collection[str],
) -> str:
    """Return the question; a column that no file has is NULL in each row."""

    def of(name: str) -> str:
        return "NULL" if name in absent else f'"{name}"'

    conditions = ["true"]
    for name, value in where.equal.items():
        if name not in divided:
            conditions.append(f"{of(name)} {'IS' if value is None else '='} {literal(value)}")
    for name, (low, high) in where.within.items():
        if name not in divided:
            conditions += [f"{of(name)} >= {literal(low)}"] if low else []
            conditions += [f"{of(name)} <= {literal(high)}"] if high else []
    for name, text in where.names.items():
        conditions.append(f"contains({of(name)}::VARCHAR, {literal(text.encode())}::VARCHAR)")
    columns, payload = where.named
    for name in columns:
        conditions.append(
            f"contains({literal(payload)}::VARCHAR, encode({of(name)}::VARCHAR)::VARCHAR)"
        )
    names, places = where.places
    if places:
        rows = ", ".join(f"({', '.join(map(literal, place))})" for place in places)
        columns_of_place = ", ".join(map(of, names))
        conditions.append(f"({columns_of_place}) IN (VALUES {rows})")
    shown = ", ".join(f'{of(name)} AS "{name}"' for name in (*wanted, FILE))
    read = _read(files)
    most = f" LIMIT {where.most}" if where.most else ""
    return f"SELECT {shown} FROM {read} WHERE {' AND '.join(conditions)}{most}"  # noqa: S608  # every value is quoted


def _read(files: Iterable[str]) -> str:
    listed = ", ".join(map(literal, files))
    return f"read_parquet([{listed}], filename = true, hive_partitioning = false, union_by_name = true)"


def _fetched(
    wanted: Collection[str], where: Where, files: Collection[str], divided: Collection[str]
) -> list[tuple[Any, ...]]:
    """Return the values of the rows, each with its file."""
    with session() as duck:
        let_read(duck, files)
        try:
            return duck.execute(_select(wanted, where, files, divided, ())).fetchall()
        except BinderException:
            # All files may be older than a column that was added since.
            described = duck.execute(f"DESCRIBE FROM {_read(files)}").fetchall()
            known = {name for name, *_ in described}
            named = {*wanted, *where.equal, *where.within, *where.names, *where.named[0]}
            absent = named - known
            if not absent:
                raise
            return duck.execute(_select(wanted, where, files, divided, absent)).fetchall()


def _aware(value: object) -> object:
    """Return a value of DuckDB; Spark's Parquet files hold times without a zone, which are in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
