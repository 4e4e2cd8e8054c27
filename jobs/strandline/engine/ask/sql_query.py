"""SQL queries without a JVM: delta-rs lists a table's files, DuckDB reads them.

Spark needs seconds to start; a query here takes about one. It cannot change anything: one SELECT is accepted
(below), the database is in memory, and it may open the files of the tables that it names and
nothing else. Each query opens its tables anew, so no answer is older than the last commit.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Table
from strandline.engine.accounting.held_records import State, offer
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import (
    ENTRIES,
    Node,
    Source,
    dropped,
    make_lists,
    rewrite_list,
    shown_entry,
    sources,
)
from strandline.engine.ask.moments import (
    HOW,
    Choose,
    Default,
    choosing,
    live,
    moment_of,
    split,
    unreadable,
)
from strandline.engine.lake.completeness import PROVISIONAL
from strandline.engine.lake.duckdb_table import (
    Duck,
    duck_error,
    is_one_select,
    literal,
    register,
    scan,
    seal,
    session,
    unreadable_errors,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.open_table import (
    damaged_log,
    damaged_log_error,
    open_version,
    refuse_deleted_files,
    version_at,
)
from strandline.engine.lake.place import Place

# What a text of SQL reads, by DuckDB's own parser: which tables, at which versions, and whether it is one SELECT.
#
# The parser that runs a query decides what it is; another one, such as sqlglot's, could read the same text differently.
# DuckDB prints its tree as JSON, in which each table, function and ``AT`` clause is a node of its own.
#
# Only tables of the lake may be named, and only table functions that make rows from their arguments. So a file is reached
# through a view with masks, never by its path, and a query opens the tables that it names and no other.


Scope = frozenset[str]


def foreign_tables(tree: Node) -> Iterator[Node]:
    """Yield each node of a tree that names a table which the query itself does not declare.

    A name counts as a common table expression only where DuckDB would look it up among those: within the query that declares it,
    in those declared after it, and in the recursive part of itself. Anywhere else DuckDB would look for a table of that name, or for
    a file. DuckDB compares names without regard to case.
    """
    left: list[tuple[object, Scope]] = [(tree, frozenset())]  # a long sum is a deep tree
    while left:
        value, scope = left.pop()
        if isinstance(value, list):
            left += [(each, scope) for each in value]
        elif isinstance(value, dict):
            if value.get("type") == "BASE_TABLE" and not _is_declared(value, scope):
                yield value
            left += _inner(value, scope)


def _is_declared(table: Node, scope: Scope) -> bool:
    return (
        not (table["schema_name"] or table["catalog_name"]) and _name(table["table_name"]) in scope
    )


def _inner(node: Node, scope: Scope) -> Iterator[tuple[object, Scope]]:
    """Yield what a node consists of, each with the names that are known there."""
    declared = node.get("cte_map")
    for each in declared["map"] if isinstance(declared, dict) else ():
        yield each["value"], scope
        scope |= {_name(each["key"])}
    own = _name(node["cte_name"]) if node.get("type") == "RECURSIVE_CTE_NODE" else None
    for key, value in node.items():
        if key != "cte_map":
            yield value, scope | {own} if own and key == "right" else scope


def _name(written: str) -> str:
    return written.lower()


OWN_CATALOGS = {"", "memory"}
"""How a query may name the database that it runs in."""

MAKES_ROWS = {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat"}
"""The table functions that read nothing but their arguments."""

TALKATIVE = {
    "current_setting",
    "getvariable",
    "json_deserialize_sql",
    "json_serialize_plan",
    "pg_get_viewdef",
    "stats",
}
"""Functions that show the salt of the masks, what a column hides, or the machine's settings."""

OF_TIME = {
    *("+", "-", "trunc", "now", "today", "timezone", "date_trunc", "strptime", "to_timestamp"),
    *("make_date", "make_timestamp", "make_timestamptz", "epoch_ms"),
    *("to_seconds", "to_minutes", "to_hours", "to_days", "to_weeks", "to_months", "to_years"),
}
"""The functions of an ``AT`` clause. It is computed before the question is, by a part of DuckDB that knows neither an end nor a limit of
memory: a list of 50 million numbers took more than half a minute there."""

EXAMPLE = 'strandline query "SELECT count(*) FROM silver.device_telemetry"'
PAST = (
    "read a past version with: FROM gold.device_daily AT (VERSION => 12), or AT (TIMESTAMP => '2026-11-20 12:00'); "
    "an alias comes first: FROM gold.device_daily AS d AT (VERSION => 12)."
)
CUSTOMS = ("AS OF", "AT VERSION", "AT TIMESTAMP", " AT (", " AT(")
"""How a past version is asked for elsewhere; a text with one that cannot be parsed is answered with DuckDB's way."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that a query names.

    Args:
        name: Such as ``gold.device_daily``.
        unit: ``VERSION`` or ``TIMESTAMP``; empty for the latest. ``MOMENT`` for a quarantine at one, and for a table of one that
            is kept under a name.
        at: The value of either; of a quarantine its version, and that of the decisions about it; the name.
        alone: Whether the question names no other version of it, so that its columns have the names that they have of the table.
    """

    name: str
    unit: str = ""
    at: object = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One SELECT.

    Args:
        sql: What is run: the text, or its translation where it names past versions or lists tables.
        tables: What it names.
        lists: Whether it asks for the list of tables, so all must be there.
        moment: The moment at which it is asked; None where it is asked of what there is.
    """

    sql: str
    tables: tuple[Reference, ...]
    lists: bool
    moment: Moment | None = None


def pinned(reference: Reference, moment: Moment) -> Reference:
    """Return a table at a moment; one that names its own version stays as it is, as does what is no table."""
    version = moment.version(reference.name)
    if reference.unit or version is None:
        return reference
    if moment.kept is not None:
        return Reference(reference.name, "MOMENT", moment.name)
    schema, _, table = reference.name.partition(".")
    if schema != "quarantine":
        return Reference(reference.name, "VERSION", version)
    decided = moment.version(f"resolutions.{table}")
    return Reference(reference.name, "MOMENT", (version, -1 if decided is None else decided))


def kept_in(moment: Moment, name: str, source: Source) -> Source:
    """Return a table as a moment keeps it that has a name: by itself, and of a quarantine the rows that were open; else as it is."""
    return source if moment.kept is None else Source(place_of(moment.kept, name), source.table)


def view_of(reference: Reference) -> str:
    """Return the name of the view of a table as SQL, which differs for each version."""
    schema, _, table = reference.name.partition(".")
    # A time may have any letter between its day and its hour.
    at = str(reference.at).replace('"', " ")
    is_apart = reference.unit and not reference.alone
    version = f" at {reference.unit.lower()} {at}" if is_apart else ""
    return f'"{schema}"."{table}{version}"'


def read(duck: Duck, sql: str, choose: Choose, default: Default = live) -> Question:
    """Return what a text asks.

    Args:
        duck: An empty database.
        sql: The text.
        choose: Chooses the moment that the text names.
        default: Chooses the one at which it is asked where it names none.

    Raises:
        DefinitionError: It is not one SELECT, or it names what is no table of a lake, or of the moment.
    """
    asked_at = split(sql)
    sql = asked_at.sql
    try:
        if not is_one_select(duck, sql):
            raise DefinitionError("a query is one SELECT; it cannot change anything", hint=EXAMPLE)
    except duck_error() as error:
        asks_past = any(each in sql.upper() for each in CUSTOMS)
        hint = HOW if "AT MOMENT" in sql.upper() else PAST if asks_past else EXAMPLE
        raise DefinitionError(sentence(error), hint=hint) from error
    tree = _tree(duck, sql)
    nodes = [*_nodes(tree)]
    _refuse_functions(nodes)
    lists = {id(each) for each in nodes if rewrite_list(each)}
    tables = [each for each in foreign_tables(tree) if id(each) not in lists]
    found = {id(each): _reference(duck, each) for each in tables}
    own = {each.name for each in found.values() if not each.unit}
    moment = default(own) if asked_at.which is None else choose(asked_at.which, own)
    if moment is not None:
        found = {key: pinned(each, moment) for key, each in found.items()}
    times = Counter(each.name for each in {*found.values()})
    if not lists:
        found = {
            key: replace(each, alone=bool(each.unit) and times[each.name] == 1)
            for key, each in found.items()
        }
    if lists or any(each.unit for each in found.values()):
        for node in tables:
            _rewrite(node, found[id(node)])
        sql = str(_one(duck, "SELECT json_deserialize_sql($1::JSON)", json.dumps(tree)))
    return Question(sql, tuple(dict.fromkeys(found.values())), bool(lists), moment)


def sentence(error: Exception) -> str:
    """Return the first line of DuckDB's message; its pointer into the text is not needed."""
    return str(error).strip().splitlines()[0]


def _tree(duck: Duck, sql: str) -> Node:
    tree: Node = json.loads(str(_one(duck, "SELECT json_serialize_sql($1::VARCHAR)", sql)))
    if tree.get("error"):
        raise DefinitionError(str(tree.get("error_message")), hint=EXAMPLE)
    return tree


def _one(duck: Duck, sql: str, value: str) -> object:
    row = duck.execute(sql, [value]).fetchone()
    return row[0] if row else None


def _nodes(value: object) -> Iterator[Node]:
    """Yield all objects of a tree; with a stack, because a long sum is a deep tree."""
    left = [value]
    while left:
        match left.pop():
            case dict() as node:
                yield node
                left.extend(node.values())
            case list() as several:
                left.extend(several)


def _refuse_functions(nodes: list[Node]) -> None:
    for node in nodes:
        kind, called = node.get("type"), node.get("function")
        name = called.get("function_name") if isinstance(called, dict) else None
        if kind == "TABLE_FUNCTION" and str(name).lower() not in MAKES_ROWS:
            raise DefinitionError(
                f"{name}() is no table of the lake, and a query reads nothing else",
                hint=f"name a table, as in: {EXAMPLE}; `strandline tables` lists them.",
            )
        if kind == "FUNCTION" and str(node.get("function_name")).lower() in TALKATIVE:
            raise DefinitionError(
                f"{node['function_name']}() shows no data of the lake", hint="leave it out."
            )


def _reference(duck: Duck, node: Node) -> Reference:
    schema, table = str(node["schema_name"]), str(node["table_name"])
    name = f"{schema}.{table}".lower() if schema else table
    if str(node["catalog_name"]).lower() not in OWN_CATALOGS:
        name = f"{node['catalog_name']}.{name}"
    clause = node["at_clause"]
    if clause is None:
        return Reference(name)
    return Reference(name, str(clause["unit"]).upper(), _value(duck, clause["expr"]))


def _value(duck: Duck, expression: Node) -> object:
    """Return the value of the expression of an ``AT`` clause, which may not depend on a row."""
    if any(each.get("class") == "SUBQUERY" for each in _nodes(expression)):
        raise DefinitionError("AT needs a value, and no query", hint=PAST)
    for each in _nodes(expression):
        called = str(each.get("function_name")).lower()
        if each.get("class") == "FUNCTION" and called not in OF_TIME:
            raise DefinitionError(f"AT needs a value, and {called}() gives no time", hint=PAST)
    tree = _tree(duck, "SELECT 1")
    tree["statements"][0]["node"]["select_list"] = [expression]
    try:
        return _one(duck, "FROM json_execute_serialized_sql($1::VARCHAR)", json.dumps(tree))
    except duck_error() as error:
        raise DefinitionError(f"AT needs a value: {sentence(error)}", hint=PAST) from error


def _rewrite(node: Node, reference: Reference) -> None:
    """Let a node name the view of its version, under the table's own name."""
    node["at_clause"], node["catalog_name"] = None, ""
    if reference.unit and not reference.alone:
        node["alias"] = node["alias"] or node["table_name"]
        _, _, view = view_of(reference).partition('"."')
        node["table_name"] = view.removesuffix('"')


# The tables that a query names as views of DuckDB, each at its version and with its sensitive columns masked.
#
# A sensitive value is replaced by a hash, salted with a random number drawn for each query. Equal values get equal hashes
# within one query, so groups and joins are correct. A masked column is text and equals no value that a query names.
#
# The views are opened anew for each query, so it reads what was committed last. The names below them are drawn as well: who
# knew one could read past the mask.


VARIANT = '"variant"'
NO_ENTRIES = """
    SELECT '' AS "table", '' AS log, 0::BIGINT AS version, '' AS entry WHERE false
"""
"""The closed entries of a lake that is too young to have some."""


@dataclass(slots=True)
class Views:
    """What was opened for a query.

    Args:
        masked: The masked columns of each table.
        past: The folder and the version of each table that was opened at a past version.
    """

    masked: dict[str, list[str]] = field(default_factory=dict)
    past: dict[str, tuple[Place, int]] = field(default_factory=dict)

    @property
    def hashed(self) -> tuple[str, ...]:
        """Return the masked columns, each with its table."""
        return tuple(f"{name}.{each}" for name, columns in self.masked.items() for each in columns)


def names(tables: Collection[Table], lake: Lake) -> list[str]:
    """Return the names of what exists."""
    found = sources(tables, lake)
    return [name for name, each in found.items() if name == ENTRIES or is_table(each.place)]


def open_views(  # noqa: PLR0913  # where, what, of what, and how
    duck: Duck,
    question: Question,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool,
    through_arrow: bool = False,
) -> Views:
    """Make a view of each table that a query names, and let the database open the files of these tables alone.

    Args:
        duck: An empty database.
        question: The query.
        tables: All tables of the lake.
        lake: The lake.
        unmasked: Whether sensitive columns are shown in the clear.
        through_arrow: Whether the database may open no file at all, because more than one SELECT is run in it: what may
            read a file could also overwrite it.

    Raises:
        DefinitionError: A table does not exist, or not at the version that is asked for.
    """
    known = sources(tables, lake)
    asked = list(question.tables)
    if question.lists:
        asked += [one for name in names(tables, lake) if (one := Reference(name)) not in asked]
    duck.execute("SET VARIABLE drawn = $drawn", {"drawn": secrets.token_hex()})
    opening = _Opening(duck, tables, lake, unmasked=unmasked, through_arrow=through_arrow)
    for reference in asked:
        source = known.get(reference.name)
        if source is not None and question.moment is not None and reference.unit == "MOMENT":
            source = kept_in(question.moment, reference.name, source)
        if source is None or not (is_table(source.place) or reference.name == ENTRIES):
            raise DefinitionError(
                f"there is no table {reference.name} in {lake.root}",
                hint=_hint(reference.name, names(tables, lake)),
                table=reference.name,
            )
        try:
            opening.add(reference, source)
        except damaged_log_error() as error:
            raise damaged_log(reference.name, source.place, error) from error
        except LakeError as error:
            if question.moment is None or not reference.unit:
                raise
            raise unreadable(question.moment, error) from error
    if question.lists:
        make_lists(duck)
        shown = {each.name for each in question.tables}
        opening.views.masked = {
            name: each for name, each in opening.views.masked.items() if name in shown
        }
    return opening.views


def _hint(name: str, known: list[str]) -> str:
    likely = [each for each in known if each.partition(".")[2] == name]
    if likely:
        return f"name it with its layer: {' or '.join(likely)}."
    here = f"the tables here are {', '.join(known)}."
    if name.startswith(f"{PROVISIONAL}."):
        return f"a table that declares `provisional` has one, unless a column of its own is called so; {here}"
    return here


class _Opening:
    """Opens tables in one database."""

    def __init__(
        self,
        duck: Duck,
        tables: Collection[Table],
        lake: Lake,
        *,
        unmasked: bool,
        through_arrow: bool,
    ) -> None:
        self.views = Views()
        self._duck, self._tables, self._lake, self._unmasked = duck, tables, lake, unmasked
        # A store is read through Arrow, which opens only the files whose statistics admit a row of the answer.
        self._opens_files = lake.root.is_local and not through_arrow
        self._read = scan if self._opens_files else register

    def add(self, reference: Reference, source: Source) -> None:
        hidden_name = f"_{secrets.token_hex(8)}"
        version = self._version(reference, source)
        rows = self._rows(reference, source, hidden_name, version)
        masked = self._masked(reference, source, rows)
        name = reference.name
        self.views.masked[name] = sorted({*self.views.masked.get(name, ()), *masked})
        schema, _, _ = name.partition(".")
        self._duck.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        self._duck.execute(f"CREATE VIEW {view_of(reference)} AS {_with_masks(rows, masked)}")

    def _version(self, reference: Reference, source: Source) -> int | None:
        if not reference.unit:
            return None
        if source.beside is not None:
            raise DefinitionError(
                f"{reference.name} shows what is known of windows that are not over, and has no versions",
                hint=f"leave AT out, or read the table itself: FROM {source.table.id if source.table else ''} AT (…).",
                table=reference.name,
            )
        if reference.unit == "MOMENT":
            if source.is_quarantine:
                self._refuse_unheld(reference, source)
            return None
        if source.is_quarantine:
            raise DefinitionError(
                f"{reference.name} shows the rows that are open now, and has no versions",
                hint=f"leave AT out, or read when each was decided about: FROM resolutions.{reference.name.partition('.')[2]}.",
                table=reference.name,
            )
        if reference.unit == "TIMESTAMP":
            version = version_at(source.place, reference.name, moment_of(reference.at))
        elif isinstance(reference.at, int) and not isinstance(reference.at, bool):
            version = reference.at
        else:
            raise DefinitionError(
                f"{reference.at!r} is no version",
                hint="a version is a whole number: AT (VERSION => 12).",
            )
        self.views.past[reference.name] = (source.place, version)
        return version

    def _refuse_unheld(self, reference: Reference, source: Source) -> None:
        """Refuse a moment at which a quarantine, or the decisions about it, can be read no more."""
        assert isinstance(reference.at, tuple)  # noqa: S101  # for mypy
        held, decided = reference.at
        if held >= 0:
            open_version(source.place, reference.name, held)
            self.views.past[reference.name] = (source.place, held)
        if source.table is not None and decided >= 0:
            open_version(self._lake.resolutions(source.table), reference.name, decided)

    def _rows(self, reference: Reference, source: Source, view: str, version: int | None) -> str:
        if source.is_quarantine and source.table is not None:
            at = reference.at if isinstance(reference.at, tuple) else (None, None)
            offer(self._duck, view, source.table, self._lake, at, read=self._read)
            self._allow(source.place, self._lake.resolutions(source.table))
            return f"SELECT * EXCLUDE (_state) FROM \"{view}\" WHERE _state = '{State.OPEN}'"  # noqa: S608  # our own names
        if not is_table(source.place):
            return NO_ENTRIES
        if reference.name == ENTRIES and not self._unmasked:
            return self._entries(source, view, version)
        declared = open_version(source.place, reference.name, version).schema().to_json()
        # DuckDB makes a type of its own of a Variant, whose numbers are not those of its JSON.
        read = register if VARIANT in declared else self._read
        if source.beside is not None:
            return self._with_provisional(source, source.beside, view, read)
        try:
            read(self._duck, view, source.place, version)
        except (duck_error(), OSError):
            if version is not None or reference.unit:  # what a moment keeps has one version
                refuse_deleted_files(source.place, reference.name, version or 0)
            raise
        self._allow(source.place)
        return f'FROM "{view}"'

    def _entries(self, source: Source, view: str, version: int | None) -> str:
        """Return the entries without what they have out of payloads, of tables whose payloads are masked."""
        self._read(self._duck, view, source.place, version)
        self._allow(source.place)
        return f'SELECT * REPLACE ({shown_entry(self._tables)} AS entry) FROM "{view}"'  # noqa: S608  # our own names

    def _with_provisional(
        self, source: Source, beside: Place, view: str, read: Callable[[Duck, str, Place], None]
    ) -> str:
        """Return the rows of a table and, marked, those of its windows that are not over; these are opened first.

        What becomes final between the two is then final alone.
        """
        is_there = source.has_provisional
        if is_there:
            try:
                read(self._duck, f"{view}_open", beside)
                self._allow(beside)
            except unreadable_errors():  # removed since: a promotion waits for no question
                is_there = False
        read(self._duck, view, source.place)
        self._allow(source.place)
        known = f'SELECT *, false AS {PROVISIONAL} FROM "{view}"'  # noqa: S608  # our own names
        if not is_there or source.table is None:
            return known
        ends = f'"{source.table.closes_at}"'
        newest = f"(SELECT coalesce(max({ends}), '-infinity') FROM \"{view}\")"  # noqa: S608  # as above
        return f'{known} UNION ALL BY NAME SELECT * FROM "{view}_open" WHERE {ends} > {newest}'  # noqa: S608  # as above

    def _allow(self, *places: Place) -> None:
        if not self._opens_files:
            return
        for place in places:
            folder = literal(f"{place}/")
            self._duck.execute(
                f"SET allowed_directories = list_append(current_setting('allowed_directories'), {folder})"
            )

    def _masked(self, reference: Reference, source: Source, rows: str) -> list[str]:
        if self._unmasked or not (secret := source.secret(self._tables, self._lake)):
            return []
        described = self._duck.execute(f"DESCRIBE {rows}").fetchall()
        columns = [str(column[0]) for column in described]
        if reference.unit:
            # Not at the source's place: a moment with a name has one of its own.
            secret |= dropped(columns, place_of(self._lake.root, reference.name))
        return [column for column in columns if column in secret]


def _with_masks(rows: str, columns: Collection[str]) -> str:
    hashes = ", ".join(
        f"'[' || left(sha256(getvariable('drawn') || CAST(\"{each}\" AS VARCHAR)), 12) || ']' AS \"{each}\""
        for each in columns
    )
    return f"SELECT * REPLACE ({hashes}) FROM ({rows})" if columns else rows  # noqa: S608  # our own names


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows, the columns of the queried tables that were masked, and the moment at which they were read."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    masked: tuple[str, ...] = ()
    moment: Moment | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A query that was run, before its rows are fetched.

    Args:
        duck: The database with its rows.
        masked: The columns of the queried tables that were masked.
        moment: The moment at which it is asked; None for what there is.
    """

    duck: Duck
    masked: tuple[str, ...]
    moment: Moment | None = None


def ask(  # noqa: PLR0913  # what, of what, how, and where
    sql: str,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool = False,
    duck: "Duck | None" = None,
    most: int | None = None,
    default: Default = live,
) -> Answer:
    """Run one SELECT over the lake's tables and quarantines.

    Args:
        sql: The query.
        tables: All tables of the lake.
        lake: The lake.
        unmasked: Whether sensitive columns are shown in the clear.
        duck: An empty database to run it in, which its owner may interrupt.
        most: How many rows to fetch; all by default.
        default: Chooses the moment where the query names none.

    Raises:
        DefinitionError: The text is not one SELECT, or DuckDB refuses it.
    """
    with asked(sql, tables, lake, unmasked=unmasked, duck=duck, default=default) as result:
        columns = tuple(column[0] for column in result.duck.description or ())
        rows = result.duck.fetchall() if most is None else result.duck.fetchmany(most)
        return Answer(columns, tuple(rows), result.masked, result.moment)


@contextmanager
def asked(  # noqa: PLR0913  # as above
    sql: str,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool = False,
    duck: "Duck | None" = None,
    default: Default = live,
) -> Iterator[Result]:
    """Run one SELECT like ``ask``, and let its rows be fetched in the block in another form."""
    duck = session() if duck is None else duck
    question = read(duck, sql, choosing(tuple(tables), lake), default)
    with opened(question, tables, lake, unmasked=unmasked, duck=duck) as views:
        yield Result(duck.execute(question.sql), views.hashed, question.moment)


@contextmanager
def opened(  # noqa: PLR0913  # what, of what, where, and how
    question: Question,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool,
    duck: Duck,
    through_arrow: bool = False,
) -> Iterator[Views]:
    """Open the tables of a question in an empty database, and explain what goes wrong in the block."""
    views = Views()
    try:
        views = open_views(
            duck, question, tables, lake, unmasked=unmasked, through_arrow=through_arrow
        )
        seal(duck)
        yield views
    except (duck_error(), OSError) as error:
        try:
            _refuse_past(views)
        except LakeError as gone:
            raise (unreadable(question.moment, gone) if question.moment else gone) from error
        raise _refusal(error, names(tables, lake)) from error


def _refuse_past(views: Views) -> None:
    """Explain an error by the files of past versions, where some are gone."""
    for name, (place, version) in views.past.items():
        refuse_deleted_files(place, name, version)


def _refusal(error: Exception, known: list[str]) -> DefinitionError:
    return DefinitionError(sentence(error), hint=f"the tables here are {', '.join(known)}.")
