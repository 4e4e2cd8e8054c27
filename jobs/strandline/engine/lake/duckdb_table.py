"""Query a Delta table with DuckDB, from its files alone: for questions of the program itself, and for the rows that commits changed.

Why not Arrow's data sets and parameters, the usual way: both import pandas, which takes longer than the answer.
It suits tables without partitions, such as history and the quarantines: their files hold all columns.

A commit that only adds files brings their rows. One that replaces files is compared: rows that are in what came and were not in
what went have changed, keys that are in what went alone are gone. So a repair of a day sends the rows that it made
otherwise and no others, and a commit that changes no row (files are put together) sends nothing. The order is the same whenever
a commit is read, so that a reader goes on at the row where it stopped: a file after the other as in the log, and of a
comparison in the order of the key. A file is read in chunks; a comparison spills to the disk.

Why not Delta's own change feed: it must be switched on before the commits, writes the rows of each replaced file a second time,
and its columns and versions are those of Spark's reader, which a process beside the stream would have to start.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import unquote

import deltalake
import deltalake.exceptions
import duckdb
import pyarrow as pa

from strandline.core.errors import DamagedError, DataError
from strandline.core.kind import in_utc
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.log_actions import file_of
from strandline.engine.lake.log.log_actions import live_files as logged_files
from strandline.engine.lake.open_table import delta_options, live_files, opened, statistics
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
from strandline.engine.runtime.limit import interrupted
from strandline.engine.runtime.settings import ENDPOINTS

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Expression


# DuckDB as the program uses it: in memory, with times in UTC and nothing on standard output.


Duck: TypeAlias = "duckdb.DuckDBPyConnection"
"""An open database."""

Relation: TypeAlias = "duckdb.DuckDBPyRelation"
"""Rows that are not fetched yet, in an open database."""

MEMORY = "512MB"
"""Most memory that a spilling database takes, whatever the size of the tables; it fits beside a default session of Spark."""


def duck_error() -> type[Exception]:
    """Return what DuckDB raises."""
    return duckdb.Error


def duck_busy() -> tuple[type[Exception], ...]:
    """Return what it raises for what passes: another program has a database open, or a disk is full."""
    return duckdb.IOException, duckdb.TransactionException


def session() -> Duck:
    """Open an empty database."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(
        "SET python_enable_replacements = false"
    )  # else a name in SQL may be a variable of Python
    with suppress(duckdb.InvalidInputException):  # in a notebook without its widgets there is none
        duck.execute("SET enable_progress_bar = false")  # it would be printed among the rows
    return duck


@contextmanager
def spilling() -> Iterator[Duck]:
    """Open a database that sorts and groups more rows than fit its memory, in a folder that is removed afterwards.

    Of a program that may write no folder, as one for agents, what does not fit fails.
    """
    with ExitStack() as held:
        try:
            folder = str(held.enter_context(scratch()))
        except FileNotFoundError:  # no folder for such files can be written
            folder = ""
        held.enter_context(interrupted(duck := held.enter_context(session())))
        duck.execute(f"SET memory_limit = '{MEMORY}'; SET preserve_insertion_order = false")
        duck.execute(f"SET temp_directory = {literal(folder)}")
        yield duck


def view_of(duck: Duck, name: str, files: Sequence[str], *, named: bool = False) -> dict[str, str]:
    """Create a view of the rows of Parquet files; return its columns and their types.

    By SQL and not by DuckDB's functions in Python: they keep Python's lock while they open several files at once, and a file on
    an object store is opened by Python, so both would wait for ever.

    Args:
        duck: The database.
        name: The name of the view.
        files: The files; one may lack columns of another.
        named: Whether a column ``filename`` names the file of each row, and the names of its folders say nothing.
    """
    let_read(duck, files)
    listed = ", ".join(map(literal, files))
    more = ", hive_partitioning = false, filename = true" if named else ""
    read = f"read_parquet([{listed}], union_by_name = true{more})"
    duck.execute(f'CREATE VIEW "{name}" AS SELECT * FROM {read}')  # noqa: S608  # quoted
    columns = duck.execute(f'DESCRIBE "{name}"').fetchall()
    return {str(column): str(kind) for column, kind, *_ in columns}


def let_read(duck: Duck, files: Iterable[str]) -> None:
    """Let a database read files of an object store, where some are on one; it has no way of its own to them."""
    asked = {file.partition("://")[0] for file in files} & {*ENDPOINTS}
    for scheme in sorted(asked - {*duck.list_filesystems()}):
        from strandline.engine.lake.object_files import file_system  # noqa: PLC0415  # few lakes are on a store

        duck.register_filesystem(file_system(scheme))


def is_one_select(duck: Duck, sql: str) -> bool:
    """Return whether a text is one SELECT, which can change nothing.

    Raises:
        duckdb.Error: It cannot be parsed.
    """
    statements = duck.extract_statements(sql)
    return len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT


def ends(text: str) -> bool:
    """Return whether a text ends with the semicolon of a statement: not with one in quotes or in a comment."""
    tokens = duckdb.tokenize(text)
    return bool(tokens) and text.encode()[tokens[-1][0] :].startswith(b";")


WORD = re.compile(rb"'(?:[^']|'')*'|\d+\.\d+|[\w\x80-\xff]+|\S")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text of SQL, and the byte at which it begins."""

    text: str
    begins: int


def words_of(text: str) -> list[Word]:
    """Return the words of a text of SQL, without its comments."""
    data = text.encode()
    found = ((begins, WORD.match(data, begins)) for begins, _ in duckdb.tokenize(text))
    return [Word(each[0].decode(), begins) for begins, each in found if each]


def keywords(duck: Duck) -> list[str]:
    """Return the keywords of DuckDB's SQL, as completion offers them."""
    found = duck.execute("SELECT upper(keyword_name) FROM duckdb_keywords() ORDER BY 1").fetchall()
    return [str(row[0]) for row in found]


def seal(duck: Duck) -> None:
    """Let a database open neither files nor the network from now on."""
    duck.execute("SET enable_external_access = false; SET lock_configuration = true")


def quoted(name: str) -> str:
    """Return a name as SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Return a value as SQL; a time is written without its zone, in UTC, as Spark's files have it."""
    match value:
        case None:
            return "NULL"
        case datetime():
            return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}'"
        case bytes():
            return f"from_hex('{value.hex()}')"
        case bool() | int() | Decimal():
            return str(value)
        case _:
            text = str(value).replace("'", "''").replace("\0", "' || chr(0) || '")
            return f"'{text}'"


# A Delta table as a data set of Arrow, with times of any year.
#
# In files of before times are INT96, which Arrow reads in nanoseconds by default: with one event of the year 9999 in a
# quarantine, `strandline quarantine` ended with "would lose data".


def rows_where(
    path: Place, condition: "Expression", columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table that meet a condition of Arrow, with all columns or some."""
    names = None if columns is None else [*columns]
    found = data_set(opened(path)).to_table(columns=names, filter=condition)
    return list(found.to_pylist())


def data_set(table: "deltalake.DeltaTable") -> "Dataset":
    """Return the rows of a version of a table; nothing is read before it is scanned."""
    from pyarrow.dataset import ParquetReadOptions  # noqa: PLC0415  # imports pandas, which takes longer than an answer

    times = ParquetReadOptions(coerce_int96_timestamp_unit="us")
    return table.to_pyarrow_dataset(parquet_read_options=times)


def write_rows(path: Place, rows: "pa.Table") -> None:
    """Make a table of rows of Arrow where there is none."""
    deltalake.write_deltalake(str(path), rows, storage_options=delta_options(path))


def unreadable_errors() -> tuple[type[Exception], ...]:
    """Return what a look at a table may end with, because its files are damaged or gone."""
    return duckdb.Error, deltalake.exceptions.DeltaError, DamagedError, OSError


def peek(path: Place, name: str) -> "Peek":
    """Open a table's latest version under a name; times are in UTC."""
    duck = session()
    _offer(duck, path, None, name)
    return Peek(duck)


def peek_beside(path: Place, version: int, name: str, more: "pa.Table") -> "Peek":
    """Open a version of a table, none where it is below 0, with rows beside it that it does not have."""
    duck = session()
    duck.register("__more", more)
    written = ""
    if version >= 0:
        _offer(duck, path, version, f"{name}_written")
        written = f'FROM "{name}_written" UNION ALL BY NAME '
    duck.execute(f'CREATE VIEW "{name}" AS {written}FROM __more')  # our own names
    return Peek(duck)


def _offer(duck: Duck, path: Place, version: int | None, name: str) -> None:
    table = opened(path, version)
    files = live_files(table)
    if files:
        kinds = view_of(duck, f"__{name}", files)
        duck.execute(f'CREATE VIEW "{name}" AS {_zoned(f"__{name}", kinds)}')
    else:
        duck.register(name, data_set(table))


def peek_files(files: Sequence[str], name: str) -> "Peek":
    """Open some files of a table under a name; their times are in UTC, and in files of before have no zone."""
    duck = session()
    view_of(duck, name, files)
    return Peek(duck)


class Peek:
    """An open database of DuckDB."""

    def __init__(self, duck: Duck) -> None:
        """Take an open connection."""
        self._duck = duck

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._duck.close()

    def ask(self, sql: str, **values: str | int | datetime) -> list[tuple[object, ...]]:
        """Return rows; the SQL refers to a value as ``getvariable('<its name>')``."""
        return list(self._run(sql, values).fetchall())

    def named(self, sql: str, **values: str | int | datetime) -> list[dict[str, object]]:
        """Return rows as dictionaries from column to value."""
        result = self._run(sql, values)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def columns(self, sql: str, rows: int) -> Iterator[list[Any]]:
        """Yield columns of numbers without a NULL as arrays of numpy, some rows at a time."""
        for batch in self._duck.execute(sql).to_arrow_reader(rows):
            yield [column.to_numpy() for column in batch.columns]

    def _run(self, sql: str, values: dict[str, str | int | datetime]) -> Duck:
        for name, value in values.items():
            self._duck.execute(f"SET VARIABLE {name} = {literal(value)}")
        return self._duck.execute(sql)


def _zoned(view: str, kinds: Mapping[str, str]) -> str:
    """Return the rows of a view with the zone of their times, UTC, which files of before do not have."""
    bare = [
        f'CAST("{column}" AS TIMESTAMPTZ) AS "{column}"'
        for column, kind in kinds.items()
        if kind == "TIMESTAMP"
    ]
    columns = f"* REPLACE ({', '.join(bare)})" if bare else "*"
    return f'SELECT {columns} FROM "{view}"'  # noqa: S608  # our own names


# A version of a Delta table as a view of DuckDB, which reads its files a row group at a time.
#
# Why not Arrow's data set: it reads ahead without a bound. Comparing two tables of 5 million rows took 1.6 GB of memory
# and 40 s through it, and 0.2 GB and 15 s this way.


def scan(duck: Duck, name: str, path: Place, version: int | None = None) -> None:
    """Create a view of a table with the columns and types that the table declares.

    Each column is cast only where its files have another type. Why no union with an empty Arrow table of the declared types: its
    statistics are those of nothing, so a join of three tables took 100 s instead of 0.2, and Arrow refuses the filter that a join
    makes of its other side ("Pushdown Filter Type BLOOM_FILTER is not currently supported in PyArrow Scans").

    Args:
        duck: A database that may read files.
        name: The name of the view.
        path: The table.
        version: The version to read; the latest when None.
    """
    table = opened(path, version)
    declared = declared_columns(duck, name, table)
    files = live_files(table)
    if not files:
        nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{each}"' for each, kind in declared.items())
        duck.execute(f'CREATE VIEW "{name}" AS SELECT {nothing} WHERE false')  # our own names
        return
    found, rows = _in_files(duck, name, table, files)
    columns = ", ".join(_as(each, kind, found.get(each)) for each, kind in declared.items())
    duck.execute(f'CREATE VIEW "{name}" AS SELECT {columns} FROM ({rows})')  # noqa: S608  # as above


def register(duck: Duck, name: str, path: Place, version: int | None = None) -> None:
    """Give SQL a table under a name through Arrow, also where the database is sealed and may open no file."""
    duck.register(name, data_set(opened(path, version)))


def declared_columns(duck: Duck, name: str, table: "deltalake.DeltaTable") -> dict[str, str]:
    """Return the columns that a table declares, and DuckDB's names of their types."""
    fields = table.schema().fields
    try:
        nothing = ", ".join(
            f"CAST(NULL AS {_sql_of(each.type)}) AS {quoted(each.name)}" for each in fields
        )
        described = duck.execute(f"DESCRIBE SELECT {nothing}").fetchall()  # our own names
    except KeyError:  # a type that Arrow knows, and to which DuckDB gives another name
        # By Arrow not at once: to be given a table of Arrow, DuckDB imports pandas, which takes longer than an answer.
        duck.register(f"__no_{name}", pa.schema(data_set(table).schema).empty_table())
        described = duck.execute(f'DESCRIBE "__no_{name}"').fetchall()
        duck.unregister(f"__no_{name}")
    return {str(column): str(kind) for column, kind, *_ in described}


OF_DELTA = "string long integer short byte float double boolean binary date timestamp timestamp_ntz"
OF_DUCKDB = (
    "VARCHAR BIGINT INTEGER SMALLINT TINYINT FLOAT DOUBLE BOOLEAN BLOB DATE TIMESTAMPTZ TIMESTAMP"
)
SQL_OF = dict(zip(OF_DELTA.split(), OF_DUCKDB.split(), strict=True))
"""DuckDB's names of the types of a Delta table."""


def _sql_of(kind: Any) -> str:  # noqa: ANN401  # a type of delta-rs, which has no class for all of them
    """Return DuckDB's name of a type.

    Raises:
        KeyError: It is none of those that have one here.
    """
    if hasattr(kind, "element_type"):
        return f"{_sql_of(kind.element_type)}[]"
    if hasattr(kind, "key_type"):
        return f"MAP({_sql_of(kind.key_type)}, {_sql_of(kind.value_type)})"
    if hasattr(kind, "fields"):
        parts = (f"{quoted(each.name)} {_sql_of(each.type)}" for each in kind.fields)
        return f"STRUCT({', '.join(parts)})"
    name = str(kind.type)
    return name.upper() if name.startswith("decimal(") else SQL_OF[name]


def _as(column: str, declared: str, found: str | None) -> str:
    """Return a column as the table declares it."""
    if found == declared:
        return f'"{column}"'
    value = "NULL" if found is None else f'"{column}"'
    return f'CAST({value} AS {declared}) AS "{column}"'


def _in_files(
    duck: Duck, name: str, table: "deltalake.DeltaTable", files: list[str]
) -> tuple[dict[str, str], str]:
    """Return the columns of files and the SQL for their rows, with the partition columns from the log.

    Delta in Spark writes the partition columns into the files as well, delta-rs does not; the log always has them.
    """
    parts = table.metadata().partition_columns
    found = view_of(duck, f"__files_{name}", files, named=True)
    if not parts:
        return found, f'FROM "__files_{name}"'
    adds = pa.table(statistics(table))
    values = {part: adds[f"partition.{part}"] for part in parts}
    duck.register(f"__arrow_{name}", pa.table({"__path": adds["path"], **values}))
    duck.execute(f'CREATE TEMP TABLE "__parts_{name}" AS FROM "__arrow_{name}"')
    kinds = duck.execute(f'DESCRIBE "__parts_{name}"').fetchall()
    of_log = {str(column): str(kind) for column, kind, *_ in kinds}
    names = ", ".join(f'p."{part}"' for part in parts)
    own = ", ".join(["filename", *(f'"{part}"' for part in parts if part in found)])
    return found | of_log, (
        f'SELECT f.* EXCLUDE ({own}), {names} FROM "__files_{name}" f '  # noqa: S608  # our own names
        f'JOIN "__parts_{name}" p ON parse_filename(f.filename) = parse_filename(p.__path)'
    )


CHUNK = 200
"""Rows that are fetched at once."""

NO_FOLDERS = "hive_partitioning = false"
"""The log says what the names of folders say."""


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
        duck.execute(f"CREATE VIEW old AS {rows_of_files(duck, went, columns)}")
        duck.execute(f"CREATE VIEW new AS {rows_of_files(duck, came, columns)}")
        yield from _asked(
            duck,
            f"(SELECT true AS __gone, * FROM (SELECT {key} FROM old EXCEPT SELECT {key} FROM new) UNION ALL BY NAME "  # noqa: S608  # our own names
            f"SELECT false AS __gone, * FROM (FROM new EXCEPT FROM old)) ORDER BY __gone DESC, {key} OFFSET {skip}",
            columns,
        )


def changed_files(path: Place, first: int, last: int) -> tuple[list[File], list[File]]:
    """Return the files that a range of versions brought and left, and those that it took and had not brought.

    What files hold that were put together meanwhile is in both.

    Raises:
        DataError: A commit is gone.
    """
    return files_changed_by(path, range(first, last + 1))


def files_changed_by(path: Place, versions: Iterable[int]) -> tuple[list[File], list[File]]:
    """Return the same of some versions, in their order.

    Raises:
        DataError: A commit is gone.
    """
    came: dict[str, File] = {}
    went: dict[str, File] = {}
    for version in versions:
        try:
            changes = [*actions(path, version, Kind.ADD, Kind.REMOVE)]
        except FileNotFoundError as error:
            raise _gone(path, version) from error
        for each in (each for each in changes if each.kind is Kind.REMOVE):
            file = _of_log(path, each.body)
            if came.pop(file.path, None) is None:
                went[file.path] = file
        for each in (each for each in changes if each.kind is Kind.ADD):
            file = _of_log(path, each.body)
            if went.pop(file.path, None) is None:  # an undo brings back what it is again
                came[file.path] = file
    return [*came.values()], [*went.values()]


def files_at(path: Place, version: int) -> dict[str, File]:
    """Return the files of a version of a table, by their names in its log."""
    return {name: _of_log(path, each) for name, each in logged_files(path, version).files.items()}


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
            sql = f"SELECT false, * FROM ({_select(duck, [file], columns, within)})"  # noqa: S608  # our own names
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


def rows_of_files(
    duck: Duck, files: Sequence[File], columns: Columns, within: Range | None = None
) -> str:
    """Return the SQL for the rows of some files; where there is none, for the columns without a row."""
    nothing = ", ".join(
        f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.kinds.items()
    )
    looked = [file for file in files if within is None or not _is_outside(file, within)]
    selected = [_select(duck, some, columns, within) for some in _alike(duck, looked)]
    return " UNION ALL ".join(selected or [f"SELECT {nothing} WHERE false"])


def _is_outside(file: File, within: Range) -> bool:
    """Return whether a file lies in a folder of the column that is outside a range: it is not opened to find that."""
    value = file.parts.get(within.column)
    try:
        at = in_utc(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except ValueError:  # in another form, which DuckDB may know
        return False
    return at is not None and not within.since <= at < within.until


def _alike(duck: Duck, files: Sequence[File]) -> Iterable[list[File]]:
    """Return files that have the same columns, of the same types, and the same values of partition columns, together.

    To describe and to read each by itself takes some milliseconds of CPU; a day of a stream has hundreds.
    """
    found: dict[object, list[File]] = defaultdict(list)
    shapes: dict[str, list[object]] = defaultdict(list)
    if len(files) > 1:
        let_read(duck, [file.path for file in files])
        listed = ", ".join(literal(file.path) for file in files)
        for name, *column in duck.execute(f"FROM parquet_schema([{listed}])").fetchall():
            shapes[name].append(column)
    for file in files:
        shape = repr(shapes[file.path]) if file.path in shapes else file.path
        found[repr(sorted(file.parts.items())), shape].append(file)
    return found.values()


def _select(
    duck: Duck, files: Sequence[File], columns: Columns, within: Range | None = None
) -> str:
    """Return the SQL for the rows of files that are alike, each column with the type that the table declares.

    A value of a former type that is none of that is NULL: the commit that changed the type has all rows as they are since.
    """
    file, listed = files[0], ", ".join(literal(each.path) for each in files)
    let_read(duck, [file.path])
    described = duck.execute(f"DESCRIBE FROM read_parquet({literal(file.path)}, {NO_FOLDERS})")
    there = {str(name) for name, *_ in described.fetchall()}
    read = f"read_parquet([{listed}], {NO_FOLDERS})"

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
