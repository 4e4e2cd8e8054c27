"""The contents that a static table has had: what its source has now, and the versions in the lake with the time in which each holds.

``static/NAME`` is a Delta table to which rows are only added: a commit a version, with the rows that came, changed or are gone, and
the moment from which that holds. So a version costs what has changed, and the intervals of all versions are made of all rows.
They are read without a JVM and given to Spark as constants: a plan then depends on no file, and on a version that is pinned.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from math import isnan
from pathlib import Path
from typing import Any, TypeAlias

import deltalake.exceptions
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType, TimestampType

from strandline.core.errors import DamagedError, DefinitionError, LakeError, TransientError
from strandline.core.static import FROM, UNTIL, Static
from strandline.core.table import Table
from strandline.engine.lake.commit.compact import columns_in, open_file, shaped
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, entries, is_table, last_entry, latest_version
from strandline.engine.lake.open_table import kinds, live_files, opened, refuse_features
from strandline.engine.lake.place import URL, Place
from strandline.engine.lake.snapshot_files import link_commit
from strandline.engine.runtime.settings import POSTGRES, POSTGRES_HINT, POSTGRES_SHAPE, address_in
from strandline.project import tables_root
from strandline_infra import installation

# What a database of PostgreSQL answers to the query of a static table.
#
# A table waits for it between two batches, so a server that is away, or an answer that takes long, ends within seconds and is said;
# the last version goes on. No message repeats an address, which has a password: of what the driver says about one, nothing is shown.


WITHIN = 4
"""Seconds within which the server must answer a new connection."""

ANSWER = 30
"""Seconds within which it must answer the query."""


def answered(static: Static, most: int) -> bytes:
    """Return the rows of the answer, at most so many, as a stream of Arrow; the same rows in another order are the same bytes.

    Raises:
        DefinitionError: There is no driver or no address, or the database refuses the query.
        TransientError: It does not answer.
    """
    driver, address = _driver(static), _address(static)
    options = f"-c statement_timeout={ANSWER}s -c TimeZone=UTC"
    try:
        with closing(
            driver.connect(
                address,
                connect_timeout=WITHIN,
                options=options,
                application_name=f"strandline {static.id}",
            )
        ) as connection:
            connection.set_session(readonly=True)
            # Of a cursor with a name the server keeps what is not asked for.
            with connection.cursor(name="static") as cursor:
                cursor.execute(static.query)
                rows = cursor.fetchmany(most)
                names = [each.name for each in cursor.description]
    except driver.Error as error:
        raise _failed(static, driver, error) from None
    if not rows:
        raise static.refused(
            f"asks the database of {static.url}, which answers without a row",
            "a source that is made anew is committed with its rows.",
        )
    found = pa.table([pa.array(each) for each in zip(*sorted(rows, key=repr), strict=True)], names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
    return bytes(sink.getvalue())


def _driver(static: Static) -> Any:  # noqa: ANN401  # has no types
    try:
        import psycopg2  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as error:
        raise static.refused(
            "asks a database of PostgreSQL, and its driver is not installed",
            installation.hint("postgres"),
        ) from error
    return psycopg2


def _address(static: Static) -> str:
    address = address_in(str(static.url))
    if not address:
        raise static.refused(
            f"asks the database of {static.url}, which the environment lacks",
            f"set {static.url}={POSTGRES_SHAPE}.",
        )
    if not POSTGRES.fullmatch(address):
        raise static.refused(
            f"asks the database of {static.url}, whose value is no address",
            POSTGRES_HINT,
        )
    return address


def _failed(static: Static, driver: Any, error: Any) -> LakeError:  # noqa: ANN401  # as above
    if isinstance(error, driver.OperationalError):
        said = " ".join(str(error).split())
        return TransientError(
            f"{static.id} cannot be read: the database of {static.url} does not answer: {said}",
            hint=f"see that its server runs, that {static.url} is right, and that the query takes less than {ANSWER} seconds.",
            static=static.id,
        )
    said = (str(error).strip().splitlines() or ["an option that the driver does not know"])[0]
    return static.refused(
        f"cannot be read: the database of {static.url} refuses its query: {said}",
        "correct the query, or let its user read what it names; it may change nothing.",
    )


GONE, NTH = "_is_gone", "_version"
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""The ends of time, for what holds of all of it."""

MOST = 100_000
"""Rows of a content. All intervals are constants of a plan, and are sent to each task with each batch."""

SHOWN = 3
"""Keys that a sentence names."""

FIXED = "_fixed"
"""The file in a scratch lake in which no content is taken in: rows are computed there by the versions of another lake."""

KEY = "strandline.key"
"""The property of a table of versions that keeps the columns by which its rows are known; one of before it was kept lacks it."""


def unreadable_errors() -> tuple[type[Exception], ...]:
    """Return what reading a source raises that is there and cannot be a content."""
    return (
        pa.ArrowException,
        ArithmeticError,  # a number or a date that a column, or Python, does not have
        KeyError,
        TypeError,
        ValueError,
        DamagedError,
        deltalake.exceptions.DeltaError,
    )


NAN = float("nan")

Key: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = "pa.Table"
Content: TypeAlias = dict[Key, Key]
"""The values of each row, by its key."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a static table's source has.

    Args:
        text: What it is, and the hash of its content.
        content: Its rows.
    """

    text: str
    content: Content


def stamp(static: Static) -> str:
    """Return what changes with the content of a source, without reading it.

    Raises:
        DefinitionError: It is not there.
    """
    try:
        if static.file is not None:
            return _place(static.file).stamp()
        if static.delta is not None:
            return str(latest_version(_place(static.delta)))
    except OSError as error:
        raise _absent(static, error) from error
    return repr(static.query or static.rows)


def read(static: Static, unless: str = "") -> Source | None:
    """Return what the source has; None where its text is a given one.

    Raises:
        DefinitionError: It is not there, or cannot be the content of this table.
        TransientError: It was written meanwhile.
    """
    before = stamp(static)
    try:
        found, text = _bytes(static)
        said = f"{text} {hashlib.sha256(found + static.columns.encode()).hexdigest()[:12]}"
        if said == unless:
            return None
        content = _content(static, _rows(static, found))
    except unreadable_errors() as error:
        raise static.refused(
            f"cannot be read from {source_said(static)}: {_reason(error)}",
            f"its columns are {static.columns}; correct the source, or the declaration.",
        ) from error
    except OSError as error:
        raise _absent(static, error) from error
    if stamp(static) != before:
        raise TransientError(
            f"{text} was written while {static.id} read it",
            hint="write a file beside it, and rename it.",
            static=static.id,
        )
    return Source(said, content)


def _bytes(static: Static) -> tuple[bytes, str]:
    """Return what decides whether the content is another one, and what the source is."""
    if static.file is not None:
        with _place(static.file).opened() as file:
            return file.read(), static.file
    if static.delta is not None:
        place = _place(static.delta)
        if not is_table(place):
            raise static.refused(
                f"reads {static.delta}, where no Delta table is", "name its folder."
            )
        return str(latest_version(place)).encode(), static.delta
    if static.query is not None:
        return answered(static, MOST + 1), str(static.url)
    return repr(static.rows).encode(), "rows"


def _rows(static: Static, found: bytes) -> "pa.Table":
    wanted = _arrow(static.schema)
    if static.rows is not None:
        columns = zip(*static.rows, strict=True) if static.rows else ([] for _ in wanted)
        return pa.table(
            [pa.array([*each], kind) for each, kind in zip(columns, wanted.types, strict=True)],
            schema=wanted,
        )
    if static.delta is not None:
        return _cast(_delta_rows(static, static.delta), wanted)
    if static.query is not None:
        return _cast(pa.ipc.open_stream(found).read_all(), wanted)
    from pyarrow import csv, parquet  # noqa: PLC0415  # they take longer to import than most answers

    if str(static.file).lower().endswith(".parquet"):
        return _cast(parquet.read_table(BytesIO(found)), wanted)
    return csv.read_csv(
        BytesIO(found),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=wanted,
            include_columns=wanted.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _delta_rows(static: Static, path: str) -> "pa.Table":
    """Return the rows of a Delta table elsewhere.

    Raises:
        DefinitionError: Its files alone do not show its rows, or it has none.
    """
    table = opened(_place(path))
    refuse_features(table, f"{path}, which {static.id} reads,")
    if by := table.metadata().partition_columns:
        raise static.refused(
            f"reads {path}, which is partitioned by {', '.join(by)}",
            "write a table without partitions for it: its files lack these columns.",
        )
    rows = _rows_of(live_files(table))
    if rows is None:
        raise static.refused(
            f"reads {path}, which has no rows",
            "a source that is made anew is committed with its rows.",
        )
    return rows


def _reason(error: Exception) -> str:
    return " ".join((error.message if isinstance(error, LakeError) else str(error)).split())


def _cast(rows: "pa.Table", wanted: "pa.Schema") -> "pa.Table":
    """Return rows with the declared types: a number may be written shorter, and nothing else is turned into another thing."""
    lacking = [name for name in wanted.names if name not in rows.column_names]
    if lacking:
        raise ValueError(
            f"it has no column {' and '.join(lacking)}, but {', '.join(rows.column_names)}"
        )
    rows = rows.select(wanted.names)
    for field in wanted:
        has = rows.schema.field(field.name).type
        if not pa.types.is_null(has) and _family(has) != _family(field.type):
            raise ValueError(f"its column {field.name} is {has}")
    return rows.cast(wanted)


def _family(kind: "pa.DataType") -> str:
    numbers = pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating
    if any(each(kind) for each in numbers):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return str(kind).partition("[")[0]


def _content(static: Static, rows: "pa.Table") -> Content:
    """Return rows by their keys.

    Raises:
        DefinitionError: A key is NULL or comes twice, or there are too many rows.
    """
    if rows.num_rows > MOST:
        raise static.refused(
            f"has {rows.num_rows:,} rows, and a static table has at most {MOST:,}",
            "bring it into the lake as a topic, and join it as a dimension.",
        )
    keys = _tuples(rows, static.key)
    if lacking := sum(None in key for key in keys):
        raise static.refused(
            f"has {lacking:,} rows whose key ({', '.join(static.key)}) is NULL in {source_said(static)}",
            "give each a key, or take it out.",
        )
    found = dict(zip(keys, _tuples(rows, static.values), strict=True))
    if len(found) < len(keys):
        twice = [key for key, times in Counter(keys).items() if times > 1]
        raise static.refused(
            f"has {len(keys) - len(found):,} rows too many in {source_said(static)}, such as two of "
            f"{'; '.join(_key_text(static, key) for key in twice[:SHOWN])}",
            f"a row is known by {', '.join(static.key)}: leave one of each, or add the column by which they differ to the key.",
        )
    return found


def _key_text(static: Static, key: Key) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(static.key, key, strict=True))


def _tuples(rows: "pa.Table", names: Iterable[str]) -> list[Key]:
    columns = [_values(rows.column(name)) for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _values(column: "pa.ChunkedArray") -> list[Any]:
    """Return a column's values; NaN is one object, because two of them are not equal, and a row with one would be new each time."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [NAN if each is not None and isnan(each) else each for each in values]


def _arrow(schema: StructType) -> "pa.Schema":
    return to_arrow_schema(schema, timezone="UTC")


def source_said(static: Static) -> str:
    """Return in words what a static table reads; of a database, the variable that has its address."""
    asked = f"the query of {static.url}" if static.query else "rows of its declaration"
    return static.file or static.delta or asked


def _place(path: str) -> Place:
    if URL.fullmatch(path) or Path(path).expanduser().is_absolute():
        return Place.of(path)
    return Place.of(tables_root() / path)


def _absent(static: Static, error: OSError) -> DefinitionError:
    return static.refused(
        f"cannot be read: {source_said(static)}: {error.strerror or _reason(error) or type(error).__name__}",
        f"a path begins at {tables_root()}, the project's folder.",
    )


# The versions in the lake.


def schema_of(static: Static) -> StructType:
    """Return the columns of the rows that are kept."""
    own = [
        StructField(FROM, TimestampType()),
        StructField(GONE, BooleanType()),
        StructField(NTH, IntegerType()),
    ]
    return StructType([*static.schema.fields, *own])


def properties_of(static: Static) -> dict[str, str]:
    """Return the properties with which the table of its versions is made."""
    return {KEY: ", ".join(sorted(static.key))}


def intervals_of(static: Static) -> StructType:
    """Return the columns of its intervals."""
    ends = [StructField(name, TimestampType()) for name in (FROM, UNTIL)]
    return StructType([*static.schema.fields, *ends])


def newest(static: Static, lake: Lake) -> tuple[int, Entry] | None:
    """Return the newest version of a content with its entry; None where none was taken in."""
    return last_entry(lake.table(static))


def versions(statics: Iterable[Static], lake: Lake) -> dict[str, int]:
    """Return the newest version of each; 0 where nothing was taken in."""
    return {each.id: max(0, latest_version(lake.table(each))) for each in statics}


def is_fixed(static: Static, lake: Lake) -> bool:
    """Return whether nothing is taken in, because rows are computed by the versions of another lake."""
    return (lake.table(static).parent / FIXED).is_file()


def refuse_other_shape(static: Static, lake: Lake) -> None:
    """Refuse a declaration whose columns or key are others than those that the lake has versions of.

    Raises:
        DefinitionError: They are.
    """
    known = kinds(lake.table(static))
    anew = "one of another key or type is another static table: give it another name, and rebuild the tables that join it."
    for each in static.schema if known else ():
        kind = str(each.dataType.jsonValue())
        if known.get(each.name, kind) != kind:
            raise static.refused(
                f"has {each.name} as {kind}, and its versions have it as {known[each.name]}", anew
            )
        if each.name in static.key and each.name not in known:
            raise static.refused(f"has {each.name} in its key, which its versions lack", anew)
    key = properties_of(static)[KEY]
    if known and (kept := opened(lake.table(static)).metadata().configuration.get(KEY, key)) != key:
        raise static.refused(f"has the key {key}, and its versions have {kept}", anew)


def refuse_untaken(table: Table, lake: Lake) -> None:
    """Refuse to compute rows of a table again that joins a static table of which no content was taken in: a repair takes in none.

    Raises:
        DefinitionError: It does.
    """
    for static in table.static:
        if newest(static, lake) is None:
            raise DefinitionError(
                f"{table.id} joins {static.id}, of which no content was taken in, so its rows would be joined with nothing",
                hint=f"`strandline run {table.id}` takes it in first.",
                table=table.id,
                static=static.id,
            )


def changes(static: Static, lake: Lake, now: Content) -> list[Key]:
    """Return the rows by which a content differs from the newest version: key, values, and whether it is gone."""
    rows = _rows_at(static, lake.table(static), latest_version(lake.table(static)))
    before = _latest(static, rows)
    came = [(*key, *values, False) for key, values in now.items() if before.get(key) != values]
    nothing = (None,) * len(static.values)
    return [*came, *((*key, *nothing, True) for key in before if key not in now)]


def kept(static: Static, changed: Sequence[Key], at: datetime | None, nth: int) -> "pa.Table":
    """Return such rows as they are kept: with the moment from which they hold, and the number of their version."""
    names = [*static.key, *static.values, GONE, FROM, NTH]
    rows = [(*each, at, nth) for each in changed]
    found = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    wanted = _arrow(schema_of(static))
    return pa.table([pa.array(found[each.name], each.type) for each in wanted], schema=wanted)


def intervals(static: Static, lake: Lake, version: int) -> "pa.Table":
    """Return the rows of all versions up to one, each with the time in which it holds."""
    path, mark = lake.table(static), ""
    with suppress(OSError):
        mark = commit_file(path, version).stamp()
    return _intervals(static, path, version, mark)


def intervals_of_now(static: Static) -> "pa.Table":
    """Return the same of what the source has now, as if it were the one version; for tests."""
    source = read(static)
    changed = [(*key, *values, False) for key, values in source.content.items()] if source else []
    return _made(static, kept(static, changed, static.holds_from, 1))


@lru_cache(maxsize=64)
def _intervals(static: Static, path: Place, version: int, mark: str) -> "pa.Table":  # noqa: ARG001  # of a lake made anew
    return _made(static, _rows_at(static, path, version))


def _made(static: Static, rows: "pa.Table") -> "pa.Table":
    """Return the intervals of kept rows: each holds until the next one of its key; one that says that it is gone holds never."""
    begins, gone = _moments(rows), rows.column(GONE).to_pylist()
    keys = _tuples(rows, static.key)
    ends, until = [LAST] * len(begins), dict[Key, datetime]()
    for number in reversed(_in_order(rows)):
        ends[number] = until.get(keys[number], LAST)
        until[keys[number]] = begins[number]
    holds = [
        not is_gone and first < end for first, end, is_gone in zip(begins, ends, gone, strict=True)
    ]
    kind = rows.schema.field(FROM).type
    found = rows.select([*static.key, *static.values])
    found = found.append_column(FROM, pa.array(begins, kind))
    found = found.append_column(UNTIL, pa.array(ends, kind)).filter(pa.array(holds, pa.bool_()))
    return found if found.num_rows else _met_by_none(found.schema)


def _met_by_none(schema: "pa.Schema") -> "pa.Table":
    """Return a row that no row meets: a join with nothing is planned otherwise, and keeps its state by other columns."""
    return pa.table([pa.nulls(1, each.type) for each in schema], schema=schema)


def _latest(static: Static, rows: "pa.Table") -> Content:
    """Return the rows that hold at last."""
    found: Content = {}
    gone = rows.column(GONE).to_pylist()
    keys, values = _tuples(rows, static.key), _tuples(rows, static.values)
    for number in _in_order(rows):
        if gone[number]:
            found.pop(keys[number], None)
        else:
            found[keys[number]] = values[number]
    return found


def _moments(rows: "pa.Table") -> list[datetime]:
    return [each or FIRST for each in rows.column(FROM).to_pylist()]


def _in_order(rows: "pa.Table") -> list[int]:
    """Return the numbers of rows in the order in which they hold; of one moment the later version counts."""
    marks = list(zip(_moments(rows), rows.column(NTH).to_pylist(), strict=True))
    return sorted(range(len(marks)), key=marks.__getitem__)


def _rows_at(static: Static, path: Place, version: int) -> "pa.Table":
    """Return the rows that are kept up to a version, NULL where one lacks a column."""
    wanted = _arrow(schema_of(static))
    found = _table_rows(path, version) if is_table(path) else None
    if found is None:
        return wanted.empty_table()
    columns = [
        found.column(each.name).cast(each.type)
        if each.name in found.column_names
        else pa.nulls(found.num_rows, each.type)
        for each in wanted
    ]
    return pa.table(columns, schema=wanted)


def _table_rows(path: Place, version: int | None = None) -> Any:  # noqa: ANN401  # Arrow's table, or None without files
    return _rows_of(live_files(opened(path, version)))


def _rows_of(files: Sequence[str]) -> Any:  # noqa: ANN401  # as above
    # Times of files of before have no zone in Arrow, and no column is joined of times with one and without.
    sources = [open_file(Place.of(file)) for file in files]
    parts = [shaped(each.read(), columns_in(each)) for each in sources]
    return pa.concat_tables(parts, promote_options="permissive") if parts else None


def rows_of(static: Static, lake: Lake, version: int) -> int:
    """Return how many rows a version has."""
    return len(_latest(static, _rows_at(static, lake.table(static), version)))


def at(static: Static, lake: Lake, moment: datetime) -> tuple[int, Entry] | None:
    """Return the version that holds of a moment with its entry; None before the first."""
    path, found = lake.table(static), None
    for version, entry in entries(path) if is_table(path) else ():
        if not entry.holds_from or datetime.fromisoformat(entry.holds_from) <= moment:
            found = (version, entry)
    return found


def holds_said(holds_from: str) -> str:
    """Return in words from when a version holds."""
    if not holds_from:
        return "of all time"
    begins = datetime.fromisoformat(holds_from)
    return f"of events from {begins.isoformat(sep=' ', timespec='seconds')} on"


def value(static: Static, lake: Lake, key: Key, moment: datetime, name: str) -> object:
    """Return the value of a column that a row with a key and a time is joined with."""
    held = intervals(static, lake, latest_version(lake.table(static)))
    names = [*static.key, FROM, UNTIL, name]
    for *own, since, until, found in zip(*(held.column(n).to_pylist() for n in names), strict=True):
        if tuple(own) == key and since <= moment < until:
            return found
    return static.default.get(name)


def first_moment(static: Static, lake: Lake) -> datetime | None:
    """Return the moment from which the first version holds; None where it holds of all time, or there is none."""
    path = lake.table(static)
    found = next((entry for _, entry in entries(path)), None) if is_table(path) else None
    return datetime.fromisoformat(found.holds_from) if found and found.holds_from else None


def carry(lake: Lake, to: Lake, wanted: Mapping[Static, int]) -> None:
    """Give another lake the versions of some static tables up to one, and let it take in none."""
    for static, version in wanted.items():
        source, target = lake.table(static), to.table(static)
        for number in range(version + 1 if is_table(source) else 0):
            link_commit(source, target, number)
        (target.parent / FIXED).put("")
