"""Which tables of a parsed query are no common table expressions, by the scopes of SQL.

A name counts as a common table expression only where DuckDB would look it up among those: within the query that declares it,
in those declared after it, and in the recursive part of itself. Anywhere else DuckDB would look for a table of that name, or for
a file. DuckDB compares names without regard to case.
"""

from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]

Scope = frozenset[str]


def foreign_tables(tree: Node) -> Iterator[Node]:
    """Yield each node of a tree that names a table which the query itself does not declare."""
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
