"""The views of a lake as Spark's SQL: one for each table, quarantine and list of decisions, for the ledger and the history.

A view reads the table's latest version at each query, so a commit of a running
stream is seen by the next one. A sensitive value is replaced by a hash under a salt that its reader never sees.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Judged, Table
from strandline.core.topic import ITEM, QUARANTINE
from strandline.engine.accounting.held_records import (
    State,
    generation,
    has_items,
    shared,
    statement,
)
from strandline.engine.ask.find_moment import Moment
from strandline.engine.flow.function_plan import hidden, hidden_in_bronze
from strandline.engine.lake.completeness import PROVISIONAL, has_mark
from strandline.engine.lake.duckdb_table import Duck, literal, unreadable_errors
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.open_table import declared_schema, kinds
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


OUT_OF_PAYLOADS = ("drift", "kinds", "unrouted")
"""What an entry of the ledger has of payloads: names that no module declares, and kinds."""


def is_secret(table: Table, tables: Collection[Table]) -> bool:
    """Return whether payloads of a table may have sensitive values."""
    return bool(table.secret or hidden_in_bronze(table, tables))


def shown_entry(tables: Collection[Table]) -> str:
    """Return the SQL for an entry of the ledger as it is shown: of a table whose payloads are masked without what is out of them."""
    secret = ", ".join(literal(each.id) for each in tables if is_secret(each, tables))
    without = literal(json.dumps(dict.fromkeys(OUT_OF_PAYLOADS)))
    entry = f"CAST(json_merge_patch(entry, {without}) AS VARCHAR)"
    return f'CASE WHEN "table" IN ({secret}) THEN {entry} ELSE entry END' if secret else "entry"


def _entry_in_spark(tables: Collection[Table]) -> str:
    """Return the same in the SQL of Spark."""
    secret = ", ".join(literal(each.id) for each in tables if is_secret(each, tables))
    without = ", ".join(map(literal, OUT_OF_PAYLOADS))
    said = "from_json(entry, 'map<string,variant>')"  # each value as it is, numbers included
    entry = f"to_json(map_filter({said}, (name, value) -> name NOT IN ({without})))"
    shown = f"CASE WHEN `table` IN ({secret}) THEN {entry} ELSE entry END" if secret else "entry"
    return f"{shown} AS entry"


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
        except unreadable_errors():  # a promotion removes them at this moment
            return False

    def secret(self, tables: Collection[Table], lake: Lake) -> frozenset[str]:
        """Return its columns that are masked.

        Args:
            tables: All tables of the lake.
            lake: The lake.
        """
        if self.table is None:
            return frozenset()
        beside = (hidden_in_bronze(each, tables) for each in shared(self.table))
        own = hidden(self.table, lake) | hidden_in_bronze(self.table, tables)
        return own.union(*beside)


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
    view = _view(name, columns, rows, source.secret(tables, lake), salt)
    if name != ENTRIES:
        return view
    shown = (_entry_in_spark(tables) if each == "entry" else _quoted(each) for each in columns)
    return replace(view, masked=_select(", ".join(shown), rows))


def dropped(columns: Iterable[str], path: Place) -> set[str]:
    """Return the columns of a former version that a table has no more: lineage, which says what is masked, is known of today's alone."""
    return {*columns} - (kinds(path) if is_table(path) else {}).keys()


def view_at(  # noqa: PLR0913  # of what, of what else, where, how, and when
    name: str, source: Source, tables: tuple[Table, ...], lake: Lake, salt: str, *, moment: Moment
) -> View | None:
    """Return the view of a table at a moment; None where it is no part of it, or has no versions.

    Lineage is known of today's columns alone, so a column that the table has no more is masked, where it has sensitive ones.
    """
    version = moment.version(name)
    if version is None or source.beside is not None or name in moment.lost:
        return None
    if moment.kept is not None:  # of a quarantine the rows that were open
        place = place_of(moment.kept, name)
        columns, rows = list(kinds(place)), _rows(place)
    elif source.is_quarantine and source.table:
        columns, rows = _open_rows_at(name, source.table, lake, moment)
    else:
        columns, rows = (
            declared_schema(source.place, version).names,
            _rows_at(source.place, version),
        )
    secret = source.secret(tables, lake)
    if secret:
        secret |= dropped(columns, source.place)
    return _view(name, columns, rows, secret, salt)


def _rows_at(path: Place, version: int) -> str:
    return f"(SELECT * FROM {_rows(path)} VERSION AS OF {version})"  # noqa: S608  # names of our own


def _open_rows_at(name: str, table: Table, lake: Lake, moment: Moment) -> tuple[list[str], str]:
    """Return the columns and the source of the rows of a quarantine that were open at a moment."""
    held, path, beside = moment.versions[name], lake.quarantine(table), lake.resolutions(table)
    if held < 0:  # nothing was held yet
        return [*kinds(path)], f"(SELECT * FROM {_rows(path)} WHERE false)"  # noqa: S608  # names of our own
    columns, rows = declared_schema(path, held).names, _rows_at(path, held)
    decided = moment.version(f"resolutions.{table.name}")
    if decided is None or decided < 0:
        return columns, rows
    items = (ITEM in columns, ITEM in declared_schema(beside, decided).names)
    records = statement(rows, _rows_at(beside, decided), generation(path, held), items)
    names = [*QUARANTINE.fieldNames(), *([ITEM] if ITEM in columns else [])]
    return names, f"({records}) WHERE _state = '{State.OPEN}'"


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


# What ``SHOW TABLES`` and ``information_schema`` list in a query: the tables of the lake, and no view below them.
#
# DuckDB would also list the views with drawn names from which a table's view is made. So a question that lists is rewritten to
# views that leave these out, under the columns that DuckDB and the standard give.


Node: TypeAlias = dict[str, Any]
"""A node of the tree that DuckDB makes of a text."""

DESCRIBED = "information_schema"
"""The schema in which SQL describes the tables themselves."""

OWN = "_listing"
"""The schema of the views that list; a query cannot name it."""

NAMED_BY = {"tables": "table_schema", "columns": "table_schema", "schemata": "schema_name"}
"""The tables of ``information_schema`` that describe a lake, and their column with the schema."""

SHOWN = {'"tables"': "names", "__show_tables_expanded": "details"}
"""What DuckDB calls ``SHOW TABLES`` and ``SHOW ALL TABLES``, and our view of each."""

LISTS = """
    CREATE VIEW _listing.names AS
    SELECT table_schema || '.' || table_name AS name FROM _listing.tables ORDER BY ALL;

    CREATE VIEW _listing.details AS
    SELECT
        table_schema AS schema,
        table_name AS name,
        list(column_name ORDER BY ordinal_position) AS column_names,
        list(data_type ORDER BY ordinal_position) AS column_types
    FROM _listing.columns GROUP BY ALL ORDER BY ALL;
"""


def rewrite_list(node: Node) -> bool:
    """Let a node that lists tables read the view that lists them; return whether it was one.

    Raises:
        DefinitionError: It asks for what a lake has not.
    """
    if node.get("type") == "SHOW_REF" and node["query"] is None:
        schema = node["schema_name"].lower()
        name = f"names of {schema}" if schema in SCHEMAS else SHOWN.get(node["table_name"])
        if name is None:
            raise DefinitionError(
                f"there is no {schema} whose tables could be listed"
                if schema
                else "a query has one database",
                hint=f"SHOW TABLES, or SHOW TABLES FROM one of {', '.join(SCHEMAS)}.",
            )
    elif node.get("type") == "BASE_TABLE" and node["schema_name"].lower() == DESCRIBED:
        name = node["table_name"].lower()
        if name not in NAMED_BY:
            raise DefinitionError(
                f"a lake has no {DESCRIBED}.{name}",
                hint=f"it has {', '.join(f'{DESCRIBED}.{each}' for each in NAMED_BY)}.",
            )
    else:
        return False
    alias, place = node.get("alias") or node.get("table_name") or "", node["query_location"]
    node.clear()
    node |= {
        "type": "BASE_TABLE",
        "alias": alias.strip('"'),
        "sample": None,
        "query_location": place,
        "schema_name": OWN,
        "table_name": name,
        "column_name_alias": [],
        "catalog_name": "",
        "at_clause": None,
    }
    return True


def make_lists(duck: Duck) -> None:
    """Make the views that list."""
    known = ", ".join(map(literal, SCHEMAS))
    duck.execute(f"CREATE SCHEMA {OWN}")
    for name, column in NAMED_BY.items():
        rows = f"FROM {DESCRIBED}.{name} WHERE {column} IN ({known})"
        duck.execute(f"CREATE VIEW {OWN}.{name} AS {rows}")
    for each in SCHEMAS:
        rows = f"FROM {OWN}.tables WHERE table_schema = {literal(each)} ORDER BY ALL"
        duck.execute(f'CREATE VIEW {OWN}."names of {each}" AS SELECT table_name AS name {rows}')
    duck.execute(LISTS)
