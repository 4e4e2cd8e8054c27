"""Query a Delta table with DuckDB, from its files alone, for questions of the program itself.

Why not Arrow's data sets and parameters, the usual way: both import pandas, which takes longer than the answer.
It suits tables without partitions, such as history and the quarantines: their files hold all columns.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from deltalake.exceptions import DeltaError

from strandline.core.errors import DamagedError
from strandline.engine.storage.arrow_data_set import data_set
from strandline.engine.storage.duckdb_session import Duck, DuckError, literal, session, view_of
from strandline.engine.storage.open_table import live_files, opened
from strandline.engine.storage.place import Place

UNREADABLE = (DuckError, DeltaError, DamagedError, OSError)
"""What a look at a table may end with, because its files are damaged or gone."""


def peek(path: Place, name: str) -> "Peek":
    """Open a table's latest version under a name; times are in UTC."""
    duck, table = session(), opened(path)
    files = live_files(table)
    if files:
        kinds = view_of(duck, f"__{name}", files)
        duck.execute(f'CREATE VIEW "{name}" AS {_zoned(f"__{name}", kinds)}')
    else:
        duck.register(name, data_set(table))
    return Peek(duck)


def peek_files(files: Sequence[str], name: str) -> "Peek":
    """Open some files of a table under a name; their times have no zone, as Spark writes them, and are in UTC."""
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

    def _run(self, sql: str, values: dict[str, str | int | datetime]) -> Duck:
        for name, value in values.items():
            self._duck.execute(f"SET VARIABLE {name} = {literal(value)}")
        return self._duck.execute(sql)


def _zoned(view: str, kinds: Mapping[str, str]) -> str:
    """Return the rows of a view with the zone of their times, UTC, which Spark does not write."""
    bare = [
        f'CAST("{column}" AS TIMESTAMPTZ) AS "{column}"'
        for column, kind in kinds.items()
        if kind == "TIMESTAMP"
    ]
    columns = f"* REPLACE ({', '.join(bare)})" if bare else "*"
    return f'SELECT {columns} FROM "{view}"'  # noqa: S608  # our own names
