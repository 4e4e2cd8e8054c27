"""The views of a lake as Spark's SQL: one for each table, quarantine and list of decisions, for the ledger and the history.

They have the names that ``strandline query`` gives. A view reads the table's latest version at each query, so a commit of a running
stream is seen by the next one. A sensitive value is replaced by a hash under a salt that its reader never sees.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jobs.core.received import QUARANTINE
from jobs.core.table import Judged, Table
from jobs.engine.pipeline.masked_columns import hidden, hidden_in_bronze
from jobs.engine.quarantine.resolutions import State, generation, statement
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import is_table
from jobs.engine.storage.open_table import kinds
from jobs.engine.storage.place import Place

LEDGER = ("ledger", "entries")
HISTORY = ("quality", "history")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view, for those who do not see sensitive columns and for those who do.

    Args:
        database: Its database.
        name: Its name there.
        masked: Its SQL, with sensitive columns masked.
        clear: Its SQL, with all columns as they are.
    """

    database: str
    name: str
    masked: str
    clear: str


def views(tables: tuple[Table, ...], lake: Lake, salt: str) -> Iterator[View]:
    """Yield a view for each table of a lake that exists.

    Args:
        tables: All tables of the lake.
        lake: The lake.
        salt: Makes the hashes of sensitive values.
    """
    for table in tables:
        known = [(str(table.layer), lake.table(table))]
        if isinstance(table, Judged):
            known += [
                ("quarantine", lake.quarantine(table)),
                ("resolutions", lake.resolutions(table)),
            ]
        there = [(database, path) for database, path in known if is_table(path)]
        secret = hidden(table, lake) | hidden_in_bronze(table, tables) if there else frozenset()
        for database, path in there:
            columns, rows = list(kinds(path)), _rows(path)
            if database == "quarantine":
                columns, rows = _open_rows(table, lake, columns)
            yield _view((database, table.name), columns, rows, secret, salt)
    for name, path in ((LEDGER, lake.closed_entries), (HISTORY, lake.history)):
        if is_table(path):
            yield _view(name, list(kinds(path)), _rows(path), (), salt)


def _view(
    name: tuple[str, str], columns: list[str], rows: str, secret: Collection[str], salt: str
) -> View:
    clear = [_quoted(each) for each in columns]
    masked = [_mask(each, salt) if each in secret else _quoted(each) for each in columns]
    return View(
        database=name[0],
        name=name[1],
        masked=_select(", ".join(masked), rows),
        clear=_select(", ".join(clear), rows),
    )


def _open_rows(table: Table, lake: Lake, columns: list[str]) -> tuple[list[str], str]:
    """Return the columns and the source of the rows of a quarantine that are open."""
    rows, decisions = lake.quarantine(table), lake.resolutions(table)
    if not is_table(decisions):
        return columns, _rows(rows)
    records = statement(_rows(rows), _rows(decisions), generation(rows))
    return QUARANTINE.fieldNames(), f"({records}) WHERE _state = '{State.OPEN}'"


def _select(columns: str, source: str) -> str:
    return f"SELECT {columns} FROM {source}"  # noqa: S608  # names of our own


def _rows(path: Place) -> str:
    return f"delta.{_quoted(str(path))}"


def _mask(column: str, salt: str) -> str:
    name = _quoted(column)
    digest = f"left(sha2(concat('{salt}', CAST({name} AS STRING)), 256), 12)"
    return f"concat('[', {digest}, ']') AS {name}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
