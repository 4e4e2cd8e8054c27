"""Small questions without a JVM: delta-rs lists a table's files, DuckDB reads them.

Spark needs seconds to start; this answers in about one. Nothing can be changed: one SELECT is accepted, the
database lives in memory, and it may not touch files or the network by itself.

Sensitive columns are replaced by a sign that is the same for the same value within one answer, so that groups and joins
come out as they are; it is made with a number drawn for that answer. Such a column is text, and is equal to no value
that a question names.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.run.hidden import hidden, of_bronze
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from jobs.run.resolutions import State, offer


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows, and the columns of the tables asked that were masked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    masked: tuple[str, ...] = ()


def ask(sql: str, tables: tuple[Table, ...], lake: Lake, *, unmasked: bool = False) -> Answer:
    """Answer one SELECT over the lake's tables and quarantines.

    Args:
        sql: The question.
        tables: All there are.
        lake: Where.
        unmasked: Whether sensitive columns are shown in the clear.

    Raises:
        DefinitionError: The text is no single SELECT, or DuckDB refuses it.
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise _refused(error, tables) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise DefinitionError(
            "a question is one SELECT; nothing can be changed here",
            hint='strandline query "SELECT count(*) FROM silver.device_telemetry"',
        )
    connection.execute("SET enable_progress_bar = false")  # it would stand among the rows
    connection.execute("SET VARIABLE drawn = $drawn", {"drawn": secrets.token_hex()})
    known = _offer(connection, tables, lake, unmasked=unmasked)
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    try:
        result = connection.execute(sql)
        columns = tuple(column[0] for column in result.description or ())
        masked = [f"{name}.{each}" for name in known if name in sql for each in known[name]]
        return Answer(columns, tuple(result.fetchall()), tuple(masked))
    except duckdb.Error as error:
        raise _refused(error, tuple(known)) from error


def _offer(
    connection: duckdb.DuckDBPyConnection,
    tables: tuple[Table, ...],
    lake: Lake,
    *,
    unmasked: bool,
) -> dict[str, list[str]]:
    """Make each table a view of its own name, the open rows of each quarantine one of ``quarantine.<table>``.

    Returns:
        The columns that are masked, by the name of the view.
    """
    known: dict[str, list[str]] = {}
    for table in tables:
        folders = {table.id: lake.table(table)}
        if table.judges:
            folders[f"quarantine.{table.name}"] = lake.quarantine(table)
            folders[f"resolutions.{table.name}"] = lake.resolutions(table)
        for name, path in folders.items():
            if not is_table(path):
                continue
            schema, _, view = name.partition(".")
            rows = f'FROM "__{schema}_{view}"'
            if schema == "quarantine":
                offer(connection, f"__{schema}_{view}", table, lake)
                rows = f"SELECT * EXCLUDE (_state) {rows} WHERE _state = '{State.OPEN}'"
            else:
                connection.register(f"__{schema}_{view}", DeltaTable(path).to_pyarrow_dataset())
            secret = hidden(table, lake) | of_bronze(table, tables)
            known[name] = [] if unmasked else _among(connection, rows, secret)
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            connection.execute(f'CREATE VIEW "{schema}"."{view}" AS {_masked(rows, known[name])}')
    return known


def _among(connection: duckdb.DuckDBPyConnection, rows: str, secret: Collection[str]) -> list[str]:
    """Return those of some columns that rows have."""
    if not secret:
        return []
    told = connection.execute(f"DESCRIBE {rows}").fetchall()
    return [str(column[0]) for column in told if column[0] in secret]


def _masked(rows: str, columns: Collection[str]) -> str:
    signs = ", ".join(
        f"'[' || left(sha256(getvariable('drawn') || CAST(\"{each}\" AS VARCHAR)), 12) || ']' AS \"{each}\""
        for each in columns
    )
    return f"SELECT * REPLACE ({signs}) FROM ({rows})" if columns else rows  # noqa: S608  # our own names


def _refused(error: duckdb.Error, known: object) -> DefinitionError:
    names = ", ".join(str(name) for name in known) if isinstance(known, list | tuple) else ""
    return DefinitionError(
        str(error).strip().splitlines()[0],
        hint=f"the tables here are {names}." if names else "this lake has no tables yet.",
    )
