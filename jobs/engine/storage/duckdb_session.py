"""DuckDB as the program uses it: in memory, with times in UTC and nothing on standard output."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

import duckdb

from jobs.engine.storage.scratch import scratch

Duck: TypeAlias = duckdb.DuckDBPyConnection
"""An open database."""

DuckError = duckdb.Error
"""What DuckDB raises."""

MEMORY = "512MB"
"""Most memory that a spilling database takes, whatever the size of the tables; it fits beside a default session of Spark."""


def session() -> Duck:
    """Open an empty database."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
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


def is_one_select(duck: Duck, sql: str) -> bool:
    """Return whether a text is one SELECT, which can change nothing.

    Raises:
        DuckError: It cannot be parsed.
    """
    statements = duck.extract_statements(sql)
    return len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT


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
