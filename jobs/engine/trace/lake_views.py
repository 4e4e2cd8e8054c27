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
    """A view.

    Args:
        database: Its database.
        name: Its name there.
        text: Its SQL.
    """

    database: str
    name: str
    text: str


def views(tables: tuple[Table, ...], lake: Lake, *, salt: str | None) -> Iterator[View]:
    """Yield a view for each table of a lake that exists.

    Args:
        tables: All tables of the lake.
        lake: The lake.
        salt: Makes the hashes of sensitive values; None to show them in the clear.
    """
    for table in tables:
        secret = hidden(table, lake) | hidden_in_bronze(table, tables) if salt else frozenset()
        places = {str(table.layer): lake.table(table)}
        if isinstance(table, Judged):
            places["resolutions"] = lake.resolutions(table)
            if is_table(lake.quarantine(table)):
                text = _open_rows(table, lake, secret, salt)
                yield View(database="quarantine", name=table.name, text=text)
        for database, path in places.items():
            if is_table(path):
                columns = _masked(list(kinds(path)), secret, salt)
                yield View(database=database, name=table.name, text=_select(columns, _rows(path)))
    for (database, name), path in ((LEDGER, lake.closed_entries), (HISTORY, lake.history)):
        if is_table(path):
            yield View(database=database, name=name, text=_select("*", _rows(path)))


def _open_rows(table: Judged, lake: Lake, secret: Collection[str], salt: str | None) -> str:
    rows, decisions = lake.quarantine(table), lake.resolutions(table)
    if not is_table(decisions):
        return _select(_masked(list(kinds(rows)), secret, salt), _rows(rows))
    columns = _masked(QUARANTINE.fieldNames(), secret, salt)
    records = statement(_rows(rows), _rows(decisions), generation(rows))
    return _select(columns, f"({records}) WHERE _state = '{State.OPEN}'")


def _select(columns: str, source: str) -> str:
    return f"SELECT {columns} FROM {source}"  # noqa: S608  # names of our own


def _rows(path: Place) -> str:
    return f"delta.{_quoted(str(path))}"


def _masked(columns: Collection[str], secret: Collection[str], salt: str | None) -> str:
    return ", ".join(
        _mask(each, salt) if salt and each in secret else _quoted(each) for each in columns
    )


def _mask(column: str, salt: str) -> str:
    name = _quoted(column)
    digest = f"left(sha2(concat('{salt}', CAST({name} AS STRING)), 256), 12)"
    return f"concat('[', {digest}, ']') AS {name}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
