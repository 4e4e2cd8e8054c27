"""Find a few rows of a large Delta table, and the file of each, without a JVM.

The statistics of all files are compared at once, and only the files that can hold such a row are opened.
Why not the dataset of delta-rs: it makes an object of every file, a second for three thousand, and imports pandas,
another second. Values are literals in the SQL and no parameters for the same reason: DuckDB imports pandas to read one.

Delta truncates the largest time of a file to milliseconds, so a file is skipped only when it ends a millisecond
earlier.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from urllib.parse import unquote

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc, shifted
from strandline.engine.lake.duckdb_table import let_read, literal, peek_files, session
from strandline.engine.lake.import_notes import ImportSlices
from strandline.engine.lake.log.commit_log import committed_at, modified_at
from strandline.engine.lake.log.ledger import Entry, entry_at, is_imported, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import brings_rows
from strandline.engine.lake.open_table import opened, statistics
from strandline.engine.lake.place import Place

# Find an entry of a ledger without reading all of them: offsets and versions only grow from entry to entry.
#
# A search opens about twenty commits of a million. An entry without the wanted figure (a backfill, maintenance) is passed
# over towards the older side. A large import is thousands of such entries one behind the other: they are passed over at
# once, by what is written beside the log.


def newest_first(path: Place) -> Iterator[tuple[int, Entry]]:
    """Yield version and entry of a table's commits, each read only when it is asked for."""
    for version in range(latest_version(path), -1, -1):
        entry = entry_at(path, version)
        if entry is not None:
            yield version, entry


def first_reaching(
    path: Place, wanted: int, figure: Callable[[Entry], int | None], since: int = 0
) -> tuple[int, Entry] | None:
    """Return the first entry from a version on whose figure is at least the wanted one; None if none is.

    Args:
        path: The table.
        wanted: What the figure must reach.
        figure: A figure of an entry that never falls from one to the next; None for an entry that has none.
        since: The first version to consider.
    """
    low, high = since, latest_version(path)
    found: tuple[int, Entry] | None = None
    while low <= high:
        middle = (low + high) // 2
        near = _at_or_before(path, middle, low, figure)
        if near is None:
            low = middle + 1
            continue
        version, entry, reached = near
        if reached >= wanted:
            found, high = (version, entry), version - 1
        else:
            low = middle + 1
    return found


def _at_or_before(
    path: Place, version: int, low: int, figure: Callable[[Entry], int | None]
) -> tuple[int, Entry, int] | None:
    while version >= low:
        entry = entry_at(path, version)
        reached = figure(entry) if entry is not None else None
        if entry is not None and reached is not None:
            return version, entry, reached
        version = _before_run(path, version, entry) if entry is not None else version - 1
    return None


def _before_run(path: Place, version: int, entry: Entry) -> int:
    """Return the version before an entry, and before the slices of an import that end with it."""
    for part, (first, _) in entry.imported.items():
        before = ImportSlices(path, part).before_run(first, version)
        if before is not None:
            return before
    return version - 1


def nearest_versions(path: Place, moment: datetime) -> Iterator[int]:
    """Yield all versions of a table, beginning with those that were committed about a time."""
    low, high = 0, latest_version(path)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if committed_at(path, middle) >= moment else (middle + 1, high)
    latest = latest_version(path)
    for distance in range(latest + 1):
        later, earlier = low + distance, low - distance - 1
        yield from (version for version in (later, earlier) if 0 <= version <= latest)


# Find the commit that took in an offset, and the batch of a table that read a version of its source, by the ledger alone.
#
# A row says which offset it came from, so its batch is found also where its file was put together with others.


BEGUN = 3
"""Commits with which a table begins: it is declared, and its first batch has what was imported before."""


def commit_with(bronze: Place, part: str, offset: int) -> tuple[int, Entry] | None:
    """Return the commit of bronze whose range of a topic partition contains an offset; None if none does."""
    if is_imported(part):
        return bringing_commit(bronze, part, offset)

    def read_until(entry: Entry) -> int | None:
        return entry.offsets[part][1] if part in entry.offsets else None

    found = first_reaching(bronze, offset + 1, read_until)
    is_in = found is not None and offset >= found[1].offsets[part][0]
    return found if is_in else None


def reading_batch(table: Place, source: str, version: int) -> tuple[int, Entry] | None:
    """Return the batch of a table that read a version of a source, by the source's name; None if none has."""

    def read_until(entry: Entry) -> int | None:
        return entry.versions[source][1] if source in entry.versions else None

    in_force = max(sums_of(table).replaced_at, 0)
    found = first_reaching(table, version, read_until, in_force)
    if found is None:
        return None
    entry = found[1]
    has_read = version >= entry.versions[source][0] or entry.whole or entry.replaced
    return found if has_read else None


def bringing_commit(table: Place, part: str, offset: int) -> tuple[int, Entry] | None:
    """Return the commit that brought an imported row to bronze, or to a table that judges it; None if none has."""
    sums = sums_of(table)
    if offset >= sums.imported.get(part, 0):
        return None
    in_force = max(sums.replaced_at, 0)
    slice_ = ImportSlices(table, part).of(offset)
    hints = (in_force, max(slice_.after + 1, in_force)) if slice_ else (in_force,)
    for begin, most in zip(hints, (BEGUN, sums.version), strict=False):
        for version in range(begin, min(begin + most, sums.version + 1)):
            entry = entry_at(table, version)
            first, end = entry.imported.get(part, (0, 0)) if entry else (0, 0)
            if entry and first <= offset < end:
                return version, entry
            if end > offset:
                break

    def brought_until(entry: Entry) -> int | None:
        return entry.imported[part][1] if part in entry.imported else None

    return first_reaching(table, offset + 1, brought_until, in_force)


def batch_of(table: Place, bronze: Place, part: str, offset: int) -> int | None:
    """Return the version with which a table read an offset of its bronze table; None if it has not."""
    if is_imported(part):
        found = bringing_commit(table, part, offset)
        return found[0] if found else None
    taken = commit_with(bronze, part, offset)
    read = reading_batch(table, f"{bronze.parent.name}.{bronze.name}", taken[0]) if taken else None
    return read[0] if read else None


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


def look_at(
    path: Place, names: Sequence[str], places: Collection[tuple[Any, ...]], columns: Collection[str]
) -> list[Found]:
    """Return the rows of some places, each a value of every named column; the files are opened at once that may have one of them.

    Not by the range of all places: from the first record of a table to its last one all of its files lie in it.
    """
    if not is_table(path):
        return []
    ranges = [_ranges(Where(equal=dict(zip(names, place, strict=True)))) for place in places]
    parts = {
        str(path / unquote(action["path"])): _partition(action)
        for action in _actions(opened(path), names)
        if any(_may_hold(action, each) for each in ranges)
    }
    return look_in(parts, Where(places=(names, places)), columns)


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


def _names(table: "deltalake.DeltaTable") -> list[str]:
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


def _actions(table: "deltalake.DeltaTable", columns: Collection[str]) -> Iterator[dict[str, Any]]:
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
        except duckdb.BinderException:
            # All files may be older than a column that was added since.
            described = duck.execute(f"DESCRIBE FROM {_read(files)}").fetchall()
            known = {name for name, *_ in described}
            named = {*wanted, *where.equal, *where.within, *where.names, *where.named[0]}
            absent = named - known
            if not absent:
                raise
            return duck.execute(_select(wanted, where, files, divided, absent)).fetchall()


def _aware(value: object) -> object:
    """Return a value of DuckDB; files of before hold times without a zone, which are in UTC, and all others such with it."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


# The newest rows of a Delta table, from the few files that hold them, however many others there are.


EARLIEST = datetime.min.replace(tzinfo=UTC)


def newest_rows(path: Place, column: str, number: int) -> list[dict[str, Any]]:
    """Return the rows with the latest times in a column, the latest first.

    A file that ends before the newest files that hold as many rows is not opened. Rows that are appended in the order of
    their times, as arrivals are, are the newest; of others it is a row of the newest files.
    """
    if not is_table(path):
        return []
    adds = statistics(opened(path))
    names = [name for name in ("path", "num_records", f"max.{column}") if name in adds.schema.names]
    files = [
        {name: value.as_py() for name, value in zip(names, values, strict=True)}
        for values in zip(*(adds[name] for name in names), strict=True)
    ]
    files.sort(key=lambda file: _or_earliest(file.get(f"max.{column}")), reverse=True)
    chosen, rows = [], 0
    for file in files:
        if rows >= number:
            break
        chosen.append(str(path / unquote(file["path"])))
        rows += file["num_records"]
    if not chosen:
        return []
    sql = f'SELECT * FROM rows ORDER BY "{column}" DESC LIMIT {number}'  # noqa: S608  # our own names
    found = peek_files(chosen, "rows").named(sql)
    return [{name: _zoned(value) for name, value in row.items()} for row in found]


def _or_earliest(moment: datetime | None) -> datetime:
    if moment is None:
        return EARLIEST
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _zoned(value: object) -> object:
    """Return a value; files of before hold times without a zone, which are in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and not value.tzinfo else value


# Find the version that added a file to its table, from about when the file was written.
#
# A row knows its file and not its batch. The file was written just before its commit, so the search begins at the commits of
# that time and goes on in both directions: it opens about twenty of a million commits, and all of them only where the file's
# time is that of a copy.


def version_of(table: Place, file: Place, until: int | None = None) -> int | None:
    """Return the version that added a file to its table; the last one where a promotion or an undo added it again.

    None where it is not there, and where maintenance made it of others, whose rows came in many versions.

    Args:
        table: The table.
        file: Its file.
        until: The last version to consider.
    """
    last = latest_version(table) if until is None else until
    replaced_at = sums_of(table, until).replaced_at
    if replaced_at >= 0 and brings_rows(table, replaced_at, file):
        return replaced_at
    if not file.exists():
        return None
    versions = (each for each in nearest_versions(table, modified_at(file)) if each <= last)
    for version in versions:
        brought = brings_rows(table, version, file)
        if brought is not None:
            return version if brought else None
    return None


# The files of a table by the age of their rows, from the statistics in its log; no file is opened.
#
# Delta cuts the largest time of a file to its millisecond, so a file counts as old a millisecond later.


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFiles:
    """Files with rows that are older than a moment.

    Args:
        whole: The names of those in which all rows are.
        rows: How many rows these have.
        partly: The names of those in which some are, with the time of the oldest row of each.
    """

    whole: tuple[str, ...] = ()
    rows: int = 0
    partly: tuple[tuple[str, datetime], ...] = ()


def old_files(path: Place, column: str, before: datetime) -> OldFiles:
    """Return the files with rows whose time is before a moment; a file without a statistic counts as new.

    Args:
        path: The table.
        column: The column with the time of a row; a row without one never gets old.
        before: The moment.
    """
    if not is_table(path):
        return OldFiles()
    found = statistics(opened(path))
    lowest, highest, empty = _times(found, column)
    is_begun = pc.fill_null(pc.less(lowest, _like(lowest, before)), False)
    is_past = pc.fill_null(pc.less(highest, _like(highest, before - CUT)), False)
    is_whole = pc.and_(is_past, pc.equal(pc.fill_null(empty, 1), 0))
    is_partly = pc.and_(is_begun, pc.invert(is_whole))
    names = pa.chunked_array(found["path"])
    return OldFiles(
        whole=tuple(name.rpartition("/")[2] for name in names.filter(is_whole).to_pylist()),
        rows=pc.sum(pa.chunked_array(found["num_records"]).filter(is_whole)).as_py() or 0,
        partly=tuple(
            (name.rpartition("/")[2], at)
            for name, at in zip(
                names.filter(is_partly).to_pylist(),
                lowest.filter(is_partly).to_pylist(),
                strict=True,
            )
        ),
    )


def _times(found: Any, column: str) -> tuple[Any, Any, Any]:  # noqa: ANN401  # Arrow has no types
    """Return the smallest and the largest time of each file, and how many of its rows have none."""
    names = found.schema.names
    count = len(found["path"])
    if f"partition.{column}" in names:  # one value a file
        at = pa.chunked_array(found[f"partition.{column}"])
        return at, at, pa.array([0] * count)
    if f"min.{column}" not in names or f"max.{column}" not in names:
        none = pa.nulls(count, pa.timestamp("us", "UTC"))
        return none, none, pa.nulls(count, pa.int64())
    nulls = f"null_count.{column}"
    empty = pa.chunked_array(found[nulls]) if nulls in names else pa.nulls(count, pa.int64())
    return pa.chunked_array(found[f"min.{column}"]), pa.chunked_array(found[f"max.{column}"]), empty


def _like(times: Any, moment: datetime) -> "pa.Scalar":  # noqa: ANN401  # as above
    return pa.scalar(moment, times.type)
