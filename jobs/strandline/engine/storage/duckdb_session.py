"""DuckDB as the program uses it: in memory, with times in UTC and nothing on standard output."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

import duckdb

from strandline.engine.runtime.settings import S3A
from strandline.engine.storage.scratch import scratch

Duck: TypeAlias = duckdb.DuckDBPyConnection
"""An open database."""

Relation: TypeAlias = duckdb.DuckDBPyRelation
"""Rows that are not fetched yet, in an open database."""

DuckError = duckdb.Error
"""What DuckDB raises."""

MEMORY = "512MB"
"""Most memory that a spilling database takes, whatever the size of the tables; it fits beside a default session of Spark."""


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
    """Open a database that sorts and groups more rows than fit its memory, in a folder that is removed afterwards."""
    with scratch() as folder, session() as duck:
        duck.execute(f"SET memory_limit = '{MEMORY}'")
        duck.execute("SET preserve_insertion_order = false")
        duck.execute(f"SET temp_directory = {literal(str(folder))}")
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
    are_there = any(file.startswith(f"{S3A}://") for file in files)
    if are_there and S3A not in duck.list_filesystems():
        from strandline.engine.storage.object_client import file_system  # noqa: PLC0415  # few lakes are on a store

        duck.register_filesystem(file_system())


def is_one_select(duck: Duck, sql: str) -> bool:
    """Return whether a text is one SELECT, which can change nothing.

    Raises:
        DuckError: It cannot be parsed.
    """
    statements = duck.extract_statements(sql)
    return len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT


def ends(text: str) -> bool:
    """Return whether a text ends with the semicolon of a statement: not with one in quotes or in a comment."""
    tokens = duckdb.tokenize(text)
    return bool(tokens) and text.encode()[tokens[-1][0] :].startswith(b";")


def keywords(duck: Duck) -> list[str]:
    """Return the keywords of DuckDB's SQL, as completion offers them."""
    found = duck.execute("SELECT upper(keyword_name) FROM duckdb_keywords() ORDER BY 1").fetchall()
    return [str(row[0]) for row in found]


def seal(duck: Duck) -> None:
    """Let a database open neither files nor the network from now on."""
    duck.execute("SET enable_external_access = false; SET lock_configuration = true")


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
            text = str(value).replace("'", "''")
            return f"'{text}'"
