"""From which columns a column is made, read from the plan that Spark makes of a table's own function.

Nobody writes it down, so it cannot be wrong: the function is applied to empty tables, and each name in the analysed plan
leads back to the columns that it was computed from. What merely filters or joins is not told. A function over groups
(a fold, a session) is opaque to Spark, so what it returns may rest on all that it is given.

It is kept in the lake with the hash of the code, so that whoever reports without Spark can tell it too.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.core.received import RECEIVED
from jobs.core.table import Layer, Table
from jobs.core.verdict import good_rows
from jobs.run.lake import Lake
from jobs.run.meter import code_version
from jobs.run.notes import put
from jobs.run.streams import shaped

Columns: TypeAlias = dict[str, list[tuple[str, str]]]
"""Of each column those that it is made of: the table and the column there."""

Tree: TypeAlias = Sequence[Mapping[str, Any]]
"""An expression as Spark writes it: each node before its children."""

MADE = ("output", "generatorOutput")
"""Where a node of a plan says what it makes that stands in no alias."""


def kept(table: Table, lake: Lake) -> Columns | None:
    """Return what was found out about a table by its code of today, if it was."""
    file = lake.lineage(table)
    if not file.exists():
        return None
    told = json.loads(file.read_text())
    if told["code"] != code_version(table):
        return None
    return {
        name: [(source, column) for source, column in of] for name, of in told["columns"].items()
    }


def lineage(spark: SparkSession, table: Table, lake: Lake) -> Columns:
    """Find out from which columns each column of a table is made, unless it is known."""
    known = kept(table, lake)
    if known is not None:
        return known
    found = found_out(spark, table)
    put(lake.lineage(table), json.dumps({"code": code_version(table), "columns": found}))
    return found


def found_out(spark: SparkSession, table: Table) -> Columns:
    """Find it out from the code alone; bronze is as received and rests on no table."""
    if table.layer is Layer.BRONZE:
        return {}
    rows = _applied(spark, table)
    plan = json.loads(rows._jdf.queryExecution().analyzed().toJSON())  # noqa: SLF001  # Python has no door to a plan
    sources = {_mark(source): source.id for source in table.upstream}
    found = _Plan(_node(iter(plan)), sources).columns()
    looked = table.looks_up
    beside = {name: [(looked.source.id, name)] for name in looked.columns} if looked else {}
    return {**found, **beside}


def _applied(spark: SparkSession, table: Table) -> DataFrame:
    """Apply a table's function to empty tables with the columns of its sources."""
    empty = [
        spark.createDataFrame([], _columns(spark, source)).alias(_mark(source))
        for source in table.upstream
    ]
    rows = shaped(empty, table)
    return good_rows(rows) if table.judges else rows


@cache
def _columns(spark: SparkSession, table: Table) -> StructType:
    return RECEIVED if table.layer is Layer.BRONZE else _applied(spark, table).schema


def _mark(source: Table) -> str:
    return f"{source.layer}__{source.name}"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a plan with those below it."""

    told: Mapping[str, Any]
    below: "tuple[_Node, ...]"

    @property
    def kind(self) -> str:
        return str(self.told["class"]).rpartition(".")[2]

    def trees(self, *names: str) -> Iterator[Tree]:
        """Yield the expressions that stand in some fields, or in all of them that say what is used."""
        for name, value in self.told.items():
            if name in names or (not names and name not in MADE):
                yield from _trees(value)


def _node(nodes: Iterator[Mapping[str, Any]]) -> _Node:
    told = next(nodes)
    return _Node(told, tuple(_node(nodes) for _ in range(told["num-children"])))


def _trees(value: object) -> Iterator[Tree]:
    if not isinstance(value, list) or not value:
        return
    if isinstance(value[0], dict) and "class" in value[0]:
        yield value
    else:
        for each in value:
            yield from _trees(each)


@dataclass(slots=True)
class _Plan:
    """What each name in a plan is made of."""

    root: _Node
    sources: Mapping[str, str]
    made_of: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    leaves: dict[int, tuple[str, str]] = field(default_factory=dict)

    def columns(self) -> Columns:
        """Follow each column of the result to the columns of the sources."""
        self._look(self.root)
        return {
            name: sorted({self.leaves[leaf] for leaf in self._reach(number)})
            for number, name in _output(self.root)
        }

    def _reach(self, number: int) -> set[int]:
        seen, coming = set(), [number]
        while coming:
            here = coming.pop()
            if here not in seen:
                seen.add(here)
                coming += self.made_of.get(here, ())
        return seen & self.leaves.keys()

    def _look(self, node: _Node) -> None:
        if (
            node.kind == "SubqueryAlias"
            and (name := node.told["identifier"]["name"]) in self.sources
        ):
            for number, column in _output(node):
                self.leaves[number] = (self.sources[name], column)
            return
        for tree in node.trees():
            self._name(tree)
        if node.below:
            self._opaque(node)
        if node.kind == "Union":
            self._unite([_output(each) for each in node.below])
        for each in node.below:
            self._look(each)

    def _name(self, tree: Tree) -> None:
        """Note what each alias in an expression is made of."""
        for at, each in enumerate(tree):
            if _kind(each) == "Alias":
                self.made_of[_number(each)] |= _used(tree[at : _end(tree, at)])

    def _opaque(self, node: _Node) -> None:
        """Note that what a node makes by itself is made of all that it uses."""
        used: set[int] = reduce(set.union, map(_used, node.trees()), set())
        for tree in node.trees(*MADE):
            self.made_of[_number(tree[0])] |= used - {_number(tree[0])}

    def _unite(self, parts: Sequence[list[tuple[int, str]]]) -> None:
        for together in zip(*parts, strict=False):
            (first, _), *others = together
            self.made_of[first] |= {number for number, _ in others}


def _output(node: _Node) -> list[tuple[int, str]]:
    """Return the columns of a node, numbered as Spark numbers them."""
    listed = {"Project": "projectList", "Aggregate": "aggregateExpressions"}.get(
        node.kind, "output"
    )
    own = [_named(tree[0]) for tree in node.trees(listed)]
    if own or not node.below:
        return own
    if node.kind == "Union":
        return _output(node.below[0])
    more = [_named(tree[0]) for tree in node.trees("windowExpressions", "generatorOutput")]
    return [*(each for below in node.below for each in _output(below)), *more]


def _named(expression: Mapping[str, Any]) -> tuple[int, str]:
    return _number(expression), str(expression["name"])


def _used(tree: Tree) -> set[int]:
    return {_number(each) for each in tree if _kind(each) == "AttributeReference"}


def _end(tree: Tree, at: int) -> int:
    """Return where the expression that begins at a place ends."""
    open_ = 1
    while open_:
        open_ += int(tree[at]["num-children"]) - 1
        at += 1
    return at


def _kind(expression: Mapping[str, Any]) -> str:
    return str(expression["class"]).rpartition(".")[2]


def _number(expression: Mapping[str, Any]) -> int:
    return int(expression["exprId"]["id"])
