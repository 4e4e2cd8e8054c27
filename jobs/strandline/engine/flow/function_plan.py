"""What Spark's plan of a table's own function says: from which columns each comes, and where it searches foreign text.

It is derived, not declared, so it cannot be wrong: the function is applied to empty tables, and each name in the
analysed plan leads back to the columns that it was computed from. Columns that only filter or join are not part of it.
A function over groups (a fold, a session) is opaque to Spark, so each of its columns may depend on all of its input.

Why not sqlglot: it reads SQL, and a table's function is Python; only Spark's analyser knows what it computes.

The lineage is cached in the lake with the hash of the code, for reports that run without Spark.

A count is computed from a column and cannot reveal a value of it. So beside all columns that a column is computed from, those are
known whose values may be seen in it; the masks follow these.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from strandline.core.errors import DefinitionError
from strandline.core.model import FEATURES, SCORE, SCORED, TYPES
from strandline.core.parse import RESCUED
from strandline.core.routes import KIND, KIND_BY
from strandline.core.static import Static, frames_from
from strandline.core.table import Computed, Ingested, Judged, Table
from strandline.core.topic import RECEIVED
from strandline.core.verdict import good_rows, with_newest_arrival
from strandline.engine.flow.batch.event_joins import ALIAS, joining
from strandline.engine.flow.plan import shaped
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.static_versions import intervals_of
from strandline.engine.runtime.code_files import code_version, is_code_of, own_texts_of
from strandline.engine.runtime.jvm import jvm, loss
from strandline.sql_function import is_in_sql

Columns: TypeAlias = dict[str, list[tuple[str, str]]]
"""For each column the columns that it is computed from, each with its table."""

Tree: TypeAlias = Sequence[Mapping[str, Any]]
"""An expression as Spark writes it: each node before its children."""

COUNTS = frozenset(
    ["Count", "CountIf", "HyperLogLogPlusPlus", "HllSketchEstimate", "ThetaSketchEstimate"]
)
"""Functions of Spark whose result says how many and never which: no value of what they count can be seen in it. A smallest one
is a value itself, and a sum is where a group has one row."""

TOGETHER = frozenset(["Union", "Intersect", "Except"])
"""Operators that bring rows of several plans under the columns of the first."""

OUTPUT_FIELDS = ("output", "generatorOutput")
"""The fields of a plan's node with the columns that it makes without an alias."""


def cached_lineage(table: Table, lake: Lake) -> Columns | None:
    """Return the cached lineage of a table; None if it is missing or of other code."""
    text = lake.lineage(table).text()
    if text is None:
        return None
    cached = json.loads(text)
    return _decoded(cached["columns"]) if is_code_of(table, cached["code"]) else None


def visible_columns(table: Table, lake: Lake) -> Columns | None:
    """Return for each column the columns whose values may be seen in it; None where Spark has not run the table.

    By the code that ran last, and by that of rows which are there from before: rows that two codes made are masked by both. In
    the cache of an older program all that a column is computed from counts as seen.
    """
    text = lake.lineage(table).text()
    if text is None:
        return None
    cached = json.loads(text)
    return _decoded(cached.get("visible", cached["columns"]))


def _decoded(columns: Mapping[str, Sequence[Sequence[str]]]) -> Columns:
    return {
        name: [(source, column) for source, column in made_of] for name, made_of in columns.items()
    }


def _is_whole(table: Table, lake: Lake) -> bool:
    """Return whether the cache has what may be seen; that of an older program has not."""
    return "visible" in json.loads(lake.lineage(table).text() or "{}")


def lineage(spark: SparkSession, table: Table, lake: Lake) -> Columns:
    """Return the lineage of a table, derived and cached unless it is cached already."""
    cached = cached_lineage(table, lake)
    if cached is not None and _is_whole(table, lake):
        return cached
    columns, visible = _derived(spark, table)
    if cached is None and lake.exists(table):  # its rows are of other code
        visible = _united(visible, visible_columns(table, lake) or {})
    found = {"code": code_version(table), "columns": columns, "visible": visible}
    lake.lineage(table).put(json.dumps(found))
    return columns


def take_over_lineage(table: Table, made: Lake, lake: Lake) -> None:
    """Let what may be seen in the rows of another lake be known of a table that is about to get them.

    What may be seen in its own rows stays known: an undo brings them back, and a query may read a former version. Where it is
    not known of the others, it is of neither.
    """
    text = made.lineage(table).text()
    if text is None:
        if table.secret:
            lake.lineage(table).remove_file()
        return
    cached = json.loads(text)
    visible = _decoded(cached.get("visible", cached["columns"]))
    both = _united(visible, visible_columns(table, lake) or {})
    lake.lineage(table).put(json.dumps({**cached, "visible": both}))


def _united(one: Columns, other: Columns) -> Columns:
    return {
        name: sorted({*one.get(name, ()), *other.get(name, ())}) for name in sorted({*one, *other})
    }


def derive_lineage(spark: SparkSession, table: Table) -> Columns:
    """Derive the lineage from the code alone; bronze is as received and depends on no table."""
    return _derived(spark, table)[0]


@cache
def _derived(spark: SparkSession, table: Table) -> tuple[Columns, Columns]:
    """Return for each column all that it is computed from, and what may be seen in it; kept, because many lakes of a test ask."""
    if isinstance(table, Ingested):
        return {}, {}
    rows = _on_empty_tables(spark, table)
    analysed = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # Python has no door to a plan
    # A part that SQL has named (WITH) is referred to by a number, which leads to no column.
    named = jvm(spark).org.apache.spark.sql.catalyst.optimizer.InlineCTE(
        True, False
    )  # Java's arguments have no names
    plan = json.loads(named.apply(analysed).toJSON())
    sources = {_alias(source): source.id for source in table.upstream}
    sources |= {f"{ALIAS}{each.name}": each.id for each in table.static}
    root = _node(iter(plan))
    wanted = table.dimension
    looked_up = {name: [(wanted.source.id, name)] for name in wanted.columns} if wanted else {}
    every, visible = (
        {**_Plan(root, sources, passed_over).columns(), **looked_up}
        for passed_over in (frozenset[str](), COUNTS)
    )
    return every, visible


def _on_empty_tables(spark: SparkSession, table: Computed) -> DataFrame:
    """Apply a table's function to empty tables with the columns of its sources."""
    empty = [
        spark.createDataFrame([], _columns(spark, source)).alias(_alias(source))
        for source in table.upstream
    ]
    with frames_from(_no_content):
        rows = shaped(empty, table)
    return good_rows(rows, table) if isinstance(table, Judged) else rows


def _no_content(static: Static, _at: str, rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame([], intervals_of(static)).alias(
        f"{ALIAS}{static.name}"
    )


@cache
def _columns(spark: SparkSession, table: Table) -> StructType:
    return RECEIVED if isinstance(table, Ingested) else _on_empty_tables(spark, table).schema


def declared_columns(spark: SparkSession, table: Table) -> StructType:
    """Return the columns of a table with their types, from the code alone; those of its dimension and its model come last."""
    found = _columns(spark, table)
    wanted = table.dimension.columns if table.dimension else ()
    known = set(found.fieldNames())
    more = [StructField(name, StringType()) for name in wanted if name not in known]
    scored = ", ".join(map(" ".join, zip(SCORED, TYPES, strict=True))) if table.scored_by else ""
    scores = spark.createDataFrame([], scored).schema.fields if scored else []
    return StructType([*found.fields, *more, *(each for each in scores if each.name not in known)])


def _alias(source: Table) -> str:
    return f"{source.layer}__{source.name}"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a plan, and its children."""

    fields: Mapping[str, Any]
    children: "tuple[_Node, ...]"

    @property
    def kind(self) -> str:
        return str(self.fields["class"]).rpartition(".")[2]

    def trees(self, *names: str) -> Iterator[Tree]:
        """Yield the expressions in some fields; without names, in all fields except those of the output."""
        for name, value in self.fields.items():
            if name in names or (not names and name not in OUTPUT_FIELDS):
                yield from _trees(value)


def _node(nodes: Iterator[Mapping[str, Any]]) -> _Node:
    fields = next(nodes)
    return _Node(fields, tuple(_node(nodes) for _ in range(fields["num-children"])))


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
    """The columns that each name in a plan is computed from, but for what is an argument of some functions."""

    root: _Node
    sources: Mapping[str, str]
    passed_over: frozenset[str]
    made_of: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    leaves: dict[int, tuple[str, str]] = field(default_factory=dict)

    def columns(self) -> Columns:
        """Follow each column of the result to the columns of the sources."""
        self._visit(self.root)
        return {
            name: sorted({self.leaves[leaf] for leaf in self._leaves_of(number)})
            for number, name in _output(self.root)
        }

    def _leaves_of(self, number: int) -> set[int]:
        seen, coming = set(), [number]
        while coming:
            here = coming.pop()
            if here not in seen:
                seen.add(here)
                coming += self.made_of.get(here, ())
        return seen & self.leaves.keys()

    def _visit(self, node: _Node) -> None:
        if (
            node.kind == "SubqueryAlias"
            and (name := node.fields["identifier"]["name"]) in self.sources
        ):
            for number, column in _output(node):
                self.leaves[number] = (self.sources[name], column)
            return
        for tree in node.trees():
            self._note_aliases(tree)
        if node.children:
            self._note_own_columns(node)
        if node.kind in TOGETHER:
            self._note_union([_output(each) for each in node.children])
        for each in node.children:
            self._visit(each)

    def _note_aliases(self, tree: Tree) -> None:
        """Note the columns that each alias in an expression is computed from."""
        for at, each in enumerate(tree):
            if _kind(each) == "Alias":
                self.made_of[_number(each)] |= self._references(tree[at : _end(tree, at)])

    def _note_own_columns(self, node: _Node) -> None:
        """Note that each column that a node makes without an alias is computed from all columns that it uses."""
        used: set[int] = reduce(set.union, map(self._references, node.trees()), set())
        for tree in node.trees(*OUTPUT_FIELDS):
            self.made_of[_number(tree[0])] |= used - {_number(tree[0])}

    def _references(self, tree: Tree) -> set[int]:
        found, at = set[int](), 0
        while at < len(tree):
            each = tree[at]
            if _kind(each) in self.passed_over:
                at = _end(tree, at)
                continue
            if _kind(each) == "AttributeReference":
                found.add(_number(each))
            at += 1
        return found

    def _note_union(self, parts: Sequence[list[tuple[int, str]]]) -> None:
        for together in zip(*parts, strict=False):
            (first, _), *others = together
            self.made_of[first] |= {number for number, _ in others}


def _output(node: _Node) -> list[tuple[int, str]]:
    """Return the columns of a node with Spark's expression ids."""
    listed = {"Project": "projectList", "Aggregate": "aggregateExpressions"}.get(
        node.kind, "output"
    )
    own = [_named(tree[0]) for tree in node.trees(listed)]
    if own or not node.children:
        return own
    if node.kind in TOGETHER:
        return _output(node.children[0])
    more = [_named(tree[0]) for tree in node.trees("windowExpressions", "generatorOutput")]
    return [*(each for child in node.children for each in _output(child)), *more]


def _named(expression: Mapping[str, Any]) -> tuple[int, str]:
    return _number(expression), str(expression["name"])


def _end(tree: Tree, at: int) -> int:
    """Return the index after the last node of an expression."""
    open_ = 1
    while open_:
        open_ += int(tree[at]["num-children"]) - 1
        at += 1
    return at


def _kind(expression: Mapping[str, Any]) -> str:
    return str(expression["class"]).rpartition(".")[2]


def _number(expression: Mapping[str, Any]) -> int:
    return int(expression["exprId"]["id"])


# The columns of a table that are masked: the declared ones, and those in which one of their values may be seen.
#
# A judged table declares its sensitive columns. Above it a column is sensitive if a value of a sensitive one passes through to it,
# renamed, nested or computed; a count of them is not, because it says how many and never which. A function over groups is opaque,
# so all its columns are. What the plan cannot know a table declares: `unmasked` names columns that are computed from sensitive ones
# and reveal none. If the lineage is unknown, because Spark has not run the table, only a column that a source shows under the
# same name is shown.


UNREADABLE = ("_payload", "_message_key", "_headers", KIND, RESCUED)
"""Columns that may hold anything, and so sensitive values too."""


def hidden(table: Table, lake: Lake) -> frozenset[str]:
    """Return the columns of a table that are masked."""
    if not table.secret:
        return frozenset()
    always = frozenset(UNREADABLE).union(table.sensitive)
    if table.scored_by:  # the lineage of a table does not reach into its model
        always = always.union((FEATURES, SCORE))
    if isinstance(table, Judged):
        return always | table.secret
    return (always | _derived_from_hidden(table, lake)) - frozenset(table.unmasked)


def hidden_if_run(spark: SparkSession, table: Table, lake: Lake) -> frozenset[str]:
    """Return the columns of a table that would be masked if today's code ran, whether it was run or not."""
    if not table.secret or isinstance(table, Judged):
        return hidden(table, lake)
    _, visible = _derived(spark, table)
    below = {source.id: hidden(source, lake) for source in table.needs}
    seen = {
        name
        for name, made_of in visible.items()
        if any(column in below.get(source, ()) for source, column in made_of)
    }
    own = {*UNREADABLE, *table.sensitive, *seen}
    return frozenset(own) - frozenset(table.unmasked)


def learn(spark: SparkSession, table: Table, lake: Lake) -> None:
    """Cache the lineage of a table above sensitive columns while Spark runs; a failure does not stop the table."""
    if table.secret and not isinstance(table, Judged):
        with suppress(PySparkException, LookupError):
            lineage(spark, table, lake)


def hidden_in_bronze(bronze: Table, tables: Collection[Table]) -> frozenset[str]:
    """Return the columns of a bronze table that hold sensitive values of a table above it."""
    is_secret = any(table.secret and bronze in table.upstream for table in tables)
    return frozenset(UNREADABLE) if is_secret and isinstance(bronze, Ingested) else frozenset()


def _derived_from_hidden(table: Table, lake: Lake) -> frozenset[str]:
    below = {source.id: hidden(source, lake) for source in table.needs}
    known = visible_columns(table, lake)
    if known is None:
        shown = {
            name
            for source in table.needs
            for name in _masked_columns_columns(source, lake) - below[source.id]
        }
        return table.secret | (_masked_columns_columns(table, lake) - shown)
    hidden_ones = {
        name
        for name, made_of in known.items()
        if any(column in below.get(source, ()) for source, column in made_of)
    }
    # A column that the code of the last run did not make is of an older one, and may hold anything.
    strangers = {
        name for name in _masked_columns_columns(table, lake) - known.keys() if name[0] != "_"
    }
    return table.secret.difference(known).union(hidden_ones, strangers)


def _masked_columns_columns(table: Table, lake: Lake) -> frozenset[str]:
    return frozenset(kinds(lake.table(table)))


# Where a table's function lets Java's engine search what a stranger has sent, and what to write instead.
#
# That engine searches by trying: one text can keep it busy for days, or end the task by an overflow of its stack, and a
# function of ours does the same in time of the text (infra/docs/linear.md). Tables that have such a search run as before:
# it is named when the table is made, and by ``strandline preflight``.
#
# What a plan has is asked of Spark (infra/strandline_infra/spark/linear/Searches.scala), and recorded with what a stream ran. Where that is
# not known, as of a table that keeps no state, the text of the table's modules decides whether Spark is worth a start.

COMPUTED = "computed"
"""Is in Spark's answer for a pattern that is another one in each row."""

SHORT = 60

INSTEAD = {
    "rlike": "linear_match",
    "regexp_extract": "linear_extract",
    "regexp_extract_all": "linear_extract_all",
    "regexp_replace": "linear_replace",
    "regexp_instr": "locate of what linear_extract finds",
    "regexp_count": "size of what linear_extract_all finds",
    "regexp_substr": "linear_extract",
    "split": "linear_split",
    "like": "contains, startswith or endswith, or linear_match",
    "ilike": "contains, startswith or endswith of lower, or linear_match",
    "str_to_map": "linear_split",
    "parse_url": "linear_extract",
}
"""Spark's function to ours."""

NAMED = re.compile(
    r"(?i:\b(?:rlike|regexp\w*|str_to_map|parse_url)\b)|\bI?LIKE\b|\.i?like\(|(?:\b(?:F|functions)\.|(?<![.\w]))split\s*\("
)
"""Names of these functions in a text of Python or SQL; ``split`` of a text of Python's own is another function."""


def searches(rows: DataFrame) -> tuple[str, ...]:
    """Return the searches of a plan, each as the name of Spark's function and its pattern; nothing is run."""
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # there is no public way
    found = jvm(rows.sparkSession).strandline.Searches.of(plan)
    return tuple(str(each) for each in found)


def may_search(table: Table) -> bool:
    """Return whether the modules of a table name a function that searches."""
    return any(map(NAMED.search, own_texts_of(table)))


def _received(rows: DataFrame, table: Judged) -> DataFrame:
    """Return rows of bronze as a table's function gets them; how their kind is found is no search of its own."""
    known = with_newest_arrival(rows)
    return known.drop(KIND_BY).withColumn(KIND, F.lit("")) if table.is_routed else known


def of_function(spark: SparkSession, table: Table, lake: Lake) -> tuple[str, ...]:
    """Return the searches of a table's function over its sources as they are; none where one was not made yet.

    Raises:
        DefinitionError: Its function is SQL that Spark cannot resolve.
    """
    if isinstance(table, Ingested) or not all(map(lake.exists, table.upstream)):
        return ()
    if not (may_search(table) or is_in_sql(table)):
        return ()
    places = [lake.table(source) for source in table.upstream]
    try:
        rows = [rows_at(spark, place, latest_version(place)) for place in places]
        if isinstance(table, Judged):
            rows = [_received(each, table) for each in rows]
        with joining(table, lake):
            if isinstance(table, Judged):
                return searches(table.transform(*rows))
            return searches(table.computed(*rows))
    except Exception as error:  # what is wrong with it is said when it runs
        if loss(error) or (isinstance(error, DefinitionError) and is_in_sql(table)):
            raise
        return ()


def sentences(found: Sequence[str]) -> tuple[str, ...]:
    """Return for each search what it is, and the function to write instead.

    >>> sentences(["rlike (a+)+"])[0].partition(":")[0]
    "rlike of '(a+)+' is searched by Java's engine, which one text can keep busy for ever"
    """
    return tuple(map(_sentence, found))


def _sentence(found: str) -> str:
    name, _, pattern = found.partition(" ")
    shown = f"{pattern[: SHORT - 1]}…" if len(pattern) > SHORT else pattern
    what = "a computed pattern" if pattern == COMPUTED else f"{shown!r}"
    return (
        f"{name} of {what} is searched by Java's engine, which one text can keep busy for ever: "
        f"write {INSTEAD[name]} instead (infra/docs/linear.md)"
    )
