"""Small questions without a JVM: delta-rs lists a table's files, DuckDB reads them.

Spark needs seconds to start; this answers in about one. Nothing can be changed: one SELECT is accepted, the
database lives in memory, and it may not touch files or the network by itself.
"""

from dataclasses import dataclass

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from jobs.run.resolutions import State, offer


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def ask(sql: str, tables: tuple[Table, ...], lake: Lake) -> Answer:
    """Answer one SELECT over the lake's tables and quarantines.

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
    known = _offer(connection, tables, lake)
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    try:
        result = connection.execute(sql)
        columns = tuple(column[0] for column in result.description or ())
        return Answer(columns, tuple(result.fetchall()))
    except duckdb.Error as error:
        raise _refused(error, known) from error


def _offer(
    connection: duckdb.DuckDBPyConnection, tables: tuple[Table, ...], lake: Lake
) -> list[str]:
    """Make each table a view of its own name, the open rows of each quarantine one of ``quarantine.<table>``."""
    known = []
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
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            connection.execute(f'CREATE VIEW "{schema}"."{view}" AS {rows}')
            known.append(name)
    return known


def _refused(error: duckdb.Error, known: object) -> DefinitionError:
    names = ", ".join(str(name) for name in known) if isinstance(known, list | tuple) else ""
    return DefinitionError(
        str(error).strip().splitlines()[0],
        hint=f"the tables here are {names}." if names else "this lake has no tables yet.",
    )
