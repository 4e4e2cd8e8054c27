"""A Delta table of ours as DuckDB reads it, from its files alone, for questions that the program itself asks.

Why not through Arrow's data sets and with parameters, as one would: both import pandas, which takes longer than the
answer. It is right for tables without partitions, such as history and the quarantines, all of whose columns stand
in their files.
"""

from datetime import datetime
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from jobs.run.files import live_files


def peek(path: Path, name: str) -> "Peek":
    """Open a table as it stands, under a name; times are in UTC."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    table = DeltaTable(path)
    files = live_files(table)
    if files:
        _zoned(duck.read_parquet(files, union_by_name=True)).create_view(name)
    else:
        duck.register(name, table.to_pyarrow_dataset())
    return Peek(duck)


class Peek:
    """What a database of ours holds."""

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Take a database that is open."""
        self._duck = duck

    def ask(self, sql: str, **values: str | int | datetime) -> list[tuple[object, ...]]:
        """Return rows; a value is ``getvariable('<its name>')`` in the question."""
        return list(self._asked(sql, values).fetchall())

    def named(self, sql: str, **values: str | int | datetime) -> list[dict[str, object]]:
        """Return rows by the names of their columns."""
        result = self._asked(sql, values)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def _asked(
        self, sql: str, values: dict[str, str | int | datetime]
    ) -> duckdb.DuckDBPyConnection:
        for name, value in values.items():
            self._duck.execute(f"SET VARIABLE {name} = {_literal(value)}")
        return self._duck.execute(sql)


def _zoned(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Give moments their zone, UTC, which Spark does not write down."""
    bare = [
        f'CAST("{column}" AS TIMESTAMPTZ) AS "{column}"'
        for column, kind in zip(rows.columns, rows.types, strict=True)
        if str(kind) == "TIMESTAMP"
    ]
    return rows.select(f"* REPLACE ({', '.join(bare)})") if bare else rows


def _literal(value: str | int | datetime) -> str:
    match value:
        case datetime():
            return f"TIMESTAMPTZ '{value.isoformat()}'"
        case int():
            return str(value)
        case str():
            quoted = value.replace("'", "''")
            return f"'{quoted}'"
