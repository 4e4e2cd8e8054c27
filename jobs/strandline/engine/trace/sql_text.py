"""What a text of SQL reads, by DuckDB's own parser: which tables, at which versions, and whether it is one SELECT.

The parser that runs a query decides what it is; another one, such as sqlglot's, could read the same text differently.
DuckDB prints its tree as JSON, in which each table, function and ``AT`` clause is a node of its own.

Only tables of the lake may be named, and only table functions that make rows from their arguments. So a file is reached
through a view with masks, never by its path, and a query opens the tables that it names and no other.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from strandline.core.errors import DefinitionError
from strandline.engine.storage.duckdb_session import Duck, DuckError, is_one_select
from strandline.engine.trace.listing import rewrite_list

Node: TypeAlias = dict[str, Any]
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
        unit: ``VERSION`` or ``TIMESTAMP``; empty for the latest.
        at: The value of either.
    """

    name: str
    unit: str = ""
    at: object = None


@dataclass(frozen=True, slots=True)
class Question:
    """One SELECT.

    Args:
        sql: What is run: the text, or its translation where it names past versions or lists tables.
        tables: What it names.
        lists: Whether it asks for the list of tables, so all must be there.
    """

    sql: str
    tables: tuple[Reference, ...]
    lists: bool


def view_of(reference: Reference) -> str:
    """Return the name of the view of a table as SQL, which differs for each version."""
    schema, _, table = reference.name.partition(".")
    version = f" at {reference.unit.lower()} {reference.at}" if reference.unit else ""
    return f'"{schema}"."{table}{version}"'


def read(duck: Duck, sql: str) -> Question:
    """Return what a text asks.

    Args:
        duck: An empty database.
        sql: The text.

    Raises:
        DefinitionError: It is not one SELECT, or it names what is no table of a lake.
    """
    try:
        if not is_one_select(duck, sql):
            raise DefinitionError("a query is one SELECT; it cannot change anything", hint=EXAMPLE)
    except DuckError as error:
        asks_past = any(each in sql.upper() for each in CUSTOMS)
        raise DefinitionError(sentence(error), hint=PAST if asks_past else EXAMPLE) from error
    tree = _tree(duck, sql)
    nodes = [*_nodes(tree)]
    _refuse_functions(nodes)
    lists = {id(each) for each in nodes if rewrite_list(each)}
    tables = [each for each in foreign_tables(tree) if id(each) not in lists]
    found = {id(each): _reference(duck, each) for each in tables}
    if lists or any(each.unit for each in found.values()):
        for node in tables:
            _rewrite(node, found[id(node)])
        sql = str(_one(duck, "SELECT json_deserialize_sql($1::JSON)", json.dumps(tree)))
    return Question(sql, tuple(dict.fromkeys(found.values())), bool(lists))


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
    tree = _tree(duck, "SELECT 1")
    tree["statements"][0]["node"]["select_list"] = [expression]
    try:
        return _one(duck, "FROM json_execute_serialized_sql($1::VARCHAR)", json.dumps(tree))
    except DuckError as error:
        raise DefinitionError(f"AT needs a value: {sentence(error)}", hint=PAST) from error


def _rewrite(node: Node, reference: Reference) -> None:
    """Let a node name the view of its version, under the table's own name."""
    node["alias"] = node["alias"] or node["table_name"]
    _, _, view = view_of(reference).partition('"."')
    node["table_name"], node["at_clause"], node["catalog_name"] = view.removesuffix('"'), None, ""
