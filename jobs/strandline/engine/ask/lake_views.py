"""The views of a lake as Spark's SQL: one for each table, quarantine and list of decisions, for the ledger and the history.

A view reads the table's latest version at each query, so a commit of a running
stream is seen by the next one. A sensitive value is replaced by a hash under a salt that its reader never sees.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from strandline.core.kind import Layer
from strandline.core.table import Judged, Table
from strandline.core.topic import ITEM, QUARANTINE
from strandline.engine.accounting.held_records import State, generation, has_items, statement
from strandline.engine.flow.function_plan import hidden, hidden_in_bronze
from strandline.engine.lake.completeness import PROVISIONAL, has_mark
from strandline.engine.lake.duckdb_table import UNREADABLE
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place

# The names that a query can have: those of tables, quarantines and lists of decisions, of the ledger and the history.
#
# They are the same in DuckDB (jobs/strandline/engine/ask/sql_query.py) and over JDBC, as is what is
# masked of each.


SCHEMAS = (
    *map(str, Layer),
    "static",
    "quarantine",
    "resolutions",
    PROVISIONAL,
    "ledger",
    "quality",
)
"""The first part of each name."""

ENTRIES = "ledger.entries"
HISTORY = "quality.history"


@dataclass(frozen=True, slots=True)
class Source:
    """What has a name in a query.

    Args:
        place: The folder of its Delta table.
        table: The table that it belongs to; None for what has no sensitive columns.
        is_quarantine: Whether it shows the open rows of a quarantine.
        beside: Of a table that is shown with its provisional rows: the folder of these.
    """

    place: Place
    table: Table | None = None
    is_quarantine: bool = False
    beside: Place | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether it is a table as it lies in the lake, so that it has versions."""
        return not self.is_quarantine and self.beside is None

    @property
    def columns(self) -> dict[str, str]:
        """Return its columns and Delta's names of their types."""
        marked = {PROVISIONAL: "boolean"} if self.beside is not None else {}
        return kinds(self.place) | marked

    @property
    def has_provisional(self) -> bool:
        """Return whether there are provisional rows with the columns that the table has; after an edit they wait to be computed anew."""
        if self.beside is None or not is_table(self.beside):
            return False
        try:
            return kinds(self.beside) == self.columns
        except UNREADABLE:  # a promotion removes them at this moment
            return False

    def secret(self, tables: Collection[Table], lake: Lake) -> frozenset[str]:
        """Return its columns that are masked.

        Args:
            tables: All tables of the lake.
            lake: The lake.
        """
        if self.table is None:
            return frozenset()
        return hidden(self.table, lake) | hidden_in_bronze(self.table, tables)


def sources(tables: Collection[Table], lake: Lake) -> Mapping[str, Source]:
    """Return all names that a query can have, whether or not their tables exist yet."""
    return dict(_sources(tables, lake))


def _sources(tables: Collection[Table], lake: Lake) -> Iterator[tuple[str, Source]]:
    for table in tables:
        yield table.id, Source(lake.table(table), table)
        if isinstance(table, Judged):
            yield f"quarantine.{table.name}", Source(lake.quarantine(table), table, True)
            yield f"resolutions.{table.name}", Source(lake.resolutions(table), table)
        # A column of its own of that name would be shown as the mark.
        if getattr(table, PROVISIONAL, None) and not has_mark(kinds(lake.table(table))):
            beside = lake.provisional(table.id)
            yield f"{PROVISIONAL}.{table.name}", Source(lake.table(table), table, beside=beside)
        for static in table.static:
            yield static.id, Source(lake.table(static))
    yield ENTRIES, Source(lake.closed_entries)
    yield HISTORY, Source(lake.history)


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


def view_of(
    name: str, source: Source, tables: tuple[Table, ...], lake: Lake, salt: str
) -> View | None:
    """Return the view of a table; None while it does not exist.

    Args:
        name: Its name in a query.
        source: The table.
        tables: All tables of the lake.
        lake: The lake.
        salt: Makes the hashes of sensitive values.
    """
    if not is_table(source.place):
        return None
    columns, rows = list(kinds(source.place)), _rows(source.place)
    if source.is_quarantine and source.table:
        columns, rows = _open_rows(source.table, lake, columns)
    if source.beside is not None and source.table:
        rows = _with_provisional(source, str(source.table.closes_at), columns)
        columns.append(PROVISIONAL)
    return _view(name, columns, rows, source.secret(tables, lake), salt)


def _view(name: str, columns: list[str], rows: str, secret: Collection[str], salt: str) -> View:
    database, _, table = name.partition(".")
    clear = [_quoted(each) for each in columns]
    masked = [_mask(each, salt) if each in secret else _quoted(each) for each in columns]
    return View(
        database=database,
        name=table,
        masked=_select(", ".join(masked), rows),
        clear=_select(", ".join(clear), rows),
    )


def _open_rows(table: Table, lake: Lake, columns: list[str]) -> tuple[list[str], str]:
    """Return the columns and the source of the rows of a quarantine that are open."""
    rows, decisions = lake.quarantine(table), lake.resolutions(table)
    if not is_table(decisions):
        return columns, _rows(rows)
    items = (has_items(rows), has_items(decisions))
    records = statement(_rows(rows), _rows(decisions), generation(rows), items)
    names = [*QUARANTINE.fieldNames(), *([ITEM] if has_items(rows) else [])]
    return names, f"({records}) WHERE _state = '{State.OPEN}'"


def _with_provisional(source: Source, closes_at: str, columns: list[str]) -> str:
    """Return the rows of a table with those of its windows that are not over: the latter first, so that no window is in neither."""
    names, ends, final = (
        ", ".join(map(_quoted, columns)),
        _quoted(closes_at),
        _rows(source.place),
    )
    known = f"SELECT {names}, false AS {PROVISIONAL} FROM {final}"  # noqa: S608  # names of our own
    if source.beside is None or not source.has_provisional:
        return f"({known})"
    newest = f"(SELECT coalesce(max({ends}), TIMESTAMP '0001-01-01') FROM {final})"  # noqa: S608  # as above
    beside = f"SELECT {names}, {PROVISIONAL} FROM {_rows(source.beside)} WHERE {ends} > {newest}"  # noqa: S608  # as above
    return f"({beside} UNION ALL {known})"


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
