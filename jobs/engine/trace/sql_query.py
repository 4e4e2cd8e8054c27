"""SQL queries without a JVM: delta-rs lists a table's files, DuckDB reads them.

Spark needs seconds to start; a query here takes about one. It cannot change anything: one SELECT is accepted, the
database is in memory, and it may not open files or the network itself.

A sensitive value is replaced by a hash, salted with a random number drawn for each query. Equal values get equal hashes
within one query, so groups and joins are correct. A masked column is text and equals no value that a query names.

DuckDB's own parser decides what is one SELECT, because it is the parser that will run it; another one, such as
sqlglot's, could read the same text differently.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from jobs.core.errors import DefinitionError
from jobs.core.table import Judged, Table
from jobs.engine.pipeline.masked_columns import hidden, hidden_in_bronze
from jobs.engine.quarantine.resolutions import State, offer
from jobs.engine.storage.duckdb_session import Duck, DuckError, is_one_select, seal, session
from jobs.engine.storage.duckdb_view import register
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import is_table

NO_ENTRIES = """
    SELECT '' AS "table", '' AS log, 0::BIGINT AS version, '' AS entry WHERE false
"""
"""The closed entries of a lake that is too young to have some."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows, and the columns of the queried tables that were masked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    masked: tuple[str, ...] = ()


def ask(sql: str, tables: tuple[Table, ...], lake: Lake, *, unmasked: bool = False) -> Answer:
    """Run one SELECT over the lake's tables and quarantines.

    Args:
        sql: The query.
        tables: All tables of the lake.
        lake: The lake.
        unmasked: Whether sensitive columns are shown in the clear.

    Raises:
        DefinitionError: The text is not one SELECT, or DuckDB refuses it.
    """
    connection = session()
    try:
        is_query = is_one_select(connection, sql)
    except DuckError as error:
        raise _refusal(error, tables) from error
    if not is_query:
        raise DefinitionError(
            "a query is one SELECT; it cannot change anything",
            hint='strandline query "SELECT count(*) FROM silver.device_telemetry"',
        )
    connection.execute("SET VARIABLE drawn = $drawn", {"drawn": secrets.token_hex()})
    known = _make_views(connection, tables, lake, unmasked=unmasked)
    seal(connection)
    try:
        result = connection.execute(sql)
        columns = tuple(column[0] for column in result.description or ())
        masked = [f"{name}.{each}" for name in known if name in sql for each in known[name]]
        return Answer(columns, tuple(result.fetchall()), tuple(masked))
    except DuckError as error:
        raise _refusal(error, tuple(known)) from error


def _make_views(
    connection: Duck,
    tables: tuple[Table, ...],
    lake: Lake,
    *,
    unmasked: bool,
) -> dict[str, list[str]]:
    """Make a view of each table, ``quarantine.<table>`` of the open rows of each quarantine, and ``ledger.entries``.

    Returns:
        The masked columns of each view.
    """
    known: dict[str, list[str]] = {}
    for table in tables:
        folders = {table.id: lake.table(table)}
        if isinstance(table, Judged):
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
                register(connection, f"__{schema}_{view}", path)
            secret = hidden(table, lake) | hidden_in_bronze(table, tables)
            known[name] = [] if unmasked else _columns_to_mask(connection, rows, secret)
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            connection.execute(f'CREATE VIEW "{schema}"."{view}" AS {_masked(rows, known[name])}')
    if is_table(lake.closed_entries):
        register(connection, "__ledger_entries", lake.closed_entries)
    else:
        connection.execute(f'CREATE VIEW "__ledger_entries" AS {NO_ENTRIES}')
    connection.execute("CREATE SCHEMA ledger")
    connection.execute('CREATE VIEW ledger.entries AS FROM "__ledger_entries"')
    return known


def _columns_to_mask(connection: Duck, rows: str, secret: Collection[str]) -> list[str]:
    """Return the sensitive columns that the rows have."""
    if not secret:
        return []
    described = connection.execute(f"DESCRIBE {rows}").fetchall()
    return [str(column[0]) for column in described if column[0] in secret]


def _masked(rows: str, columns: Collection[str]) -> str:
    hashes = ", ".join(
        f"'[' || left(sha256(getvariable('drawn') || CAST(\"{each}\" AS VARCHAR)), 12) || ']' AS \"{each}\""
        for each in columns
    )
    return f"SELECT * REPLACE ({hashes}) FROM ({rows})" if columns else rows  # noqa: S608  # our own names


def _refusal(error: DuckError, known: object) -> DefinitionError:
    names = ", ".join(str(name) for name in known) if isinstance(known, list | tuple) else ""
    return DefinitionError(
        str(error).strip().splitlines()[0],
        hint=f"the tables here are {names}." if names else "this lake has no tables yet.",
    )
