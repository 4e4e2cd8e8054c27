"""Spark's logical plan as a tree, with every expression written down to the columns of the sources.

Spark prints a plan as JSON. Ids of expressions differ in every process, so two plans are compared by texts in which each
column is replaced by what it is computed from. A projection that changes no value changes no text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strandline.core.parse_registered import READER

Json = Mapping[str, Any]
Texts = Mapping[int, str]
"""For each column its text, by Spark's id."""

NOT_MEANT = frozenset(
    {
        "class",
        "num-children",
        "exprId",
        "resultId",
        "evalContext",
        "qualifier",
        "metadata",
        "explicitMetadata",
        "nonInheritableMetadataKeys",
        "nullable",
        "func",
        "schema",
    }
)
"""Fields of an expression that do not decide its value."""

DECODERS = ("JsonToStructs", "CsvToStructs", "AvroDataToCatalyst")
"""A decoder has the schema of a whole payload, and ours a mark that differs in every process (jobs/strandline/core/parse.py)."""

COLUMN = re.compile(r"\b(?:bronze|silver|gold)\.\w+\.\w+")

ADDRESS = re.compile(r"^\[B@[0-9a-f]+$")
"""Spark prints bytes by where they lie in memory, which differs at every start."""

NUMBERS = ("precision", "scale", "ordinal")
"""Fields that are numbers; any other number in a field is the place of a child."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of an operator.

    Args:
        ids: Their ids, in their order.
        texts: The texts of these, and of all columns below.
    """

    ids: list[int]
    texts: dict[int, str]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a plan, or a part of an expression.

    Args:
        kind: Its class in Spark, without the package.
        fields: Its fields, as Spark prints them.
        children: What it reads.
    """

    kind: str
    fields: Json
    children: "tuple[Node, ...]"

    def walk(self) -> "Iterator[Node]":
        """Yield it and all below it, from the top and from the left, the order in which Spark numbers its operators."""
        yield self
        for child in self.children:
            yield from child.walk()

    def expressions(self, name: str) -> "list[Node]":
        """Return the expressions in one of its fields."""
        return list(_expressions(self.fields.get(name) or []))


def tree(text: str) -> Node:
    """Read a plan that Spark has printed as JSON."""
    return _built(iter(json.loads(text)))


def columns(root: Node, sources: Iterator[str]) -> dict[int, Columns]:
    """Return the columns of each operator, by the ``id`` of its node.

    Args:
        root: The plan.
        sources: The names of the streaming relations, in the order of the plan.
    """
    found: dict[int, Columns] = {}
    _resolve(root, sources, found)
    return found


def _resolve(node: Node, sources: Iterator[str], found: dict[int, Columns]) -> Columns:
    below = [_resolve(child, sources, found) for child in node.children]
    found[id(node)] = _columns(node, below, sources)
    return found[id(node)]


def _columns(  # noqa: PLR0911  # one for each kind of operator
    node: Node, below: Sequence[Columns], sources: Iterator[str]
) -> Columns:
    known = {number: text for each in below for number, text in each.texts.items()}
    match node.kind:
        case "StreamingRelation":
            return _named(node.expressions("output"), next(sources), known)
        case "Project" | "Aggregate":
            name = "projectList" if node.kind == "Project" else "aggregateExpressions"
            found = {_id(each): written(each, known) for each in node.expressions(name)}
            return Columns(list(found), {**known, **found})
        case "Union":
            by_position = zip(*([each.texts[n] for n in each.ids] for each in below), strict=True)
            return _together(below[0].ids, by_position, known)
        case "Expand":
            rows = ([written(each, known) for each in row] for row in _rows(node))
            ids = [_id(each) for each in node.expressions("output")]
            return _together(ids, zip(*rows, strict=True), known)
        case "TransformWithStateInPySpark" | "FlatMapGroupsInPandasWithState":
            return _named(node.expressions("outputAttrs"), "state", known)
        case "Join" if _joins_left_only(node):
            return Columns(below[0].ids, known)
        case _:
            return _passed_on(node, [n for each in below for n in each.ids], known)


def written(expression: Node, known: Texts) -> str:
    """Return an expression as text, each column replaced by what it is computed from."""
    match expression.kind:
        case "AttributeReference":
            return known.get(_id(expression), f"?{expression.fields['name']}")
        case "Alias":
            return written(expression.children[0], known)
        case "Literal":
            return ADDRESS.sub("bytes", str(expression.fields["value"]))
        case "GetStructField" if expression.fields.get("name"):
            return f"{written(expression.children[0], known)}.{expression.fields['name']}"
        case kind if kind in DECODERS or expression.fields.get("name") == READER:
            named = (each for each in expression.walk() if each.kind == "AttributeReference")
            read = sorted({known.get(_id(each), "?") for each in named})
            return f"{kind}({_columns_in(', '.join(read))})"
        case kind:
            parts = [written(each, known) for each in expression.children]
            return f"{kind}({', '.join([*parts, *_settings(expression)])})"


def _built(lines: Iterator[Json]) -> Node:
    fields = next(lines)
    children = tuple(_built(lines) for _ in range(fields["num-children"]))
    return Node(str(fields["class"]).rpartition(".")[2], fields, children)


def _expressions(value: Any) -> Iterator[Node]:  # noqa: ANN401  # JSON
    """Yield the expressions of a field: a list of lists, or one list."""
    if value and isinstance(value[0], dict):
        yield _built(iter(value))
        return
    for each in value:
        yield from _expressions(each)


def _id(expression: Node) -> int:
    return int(expression.fields["exprId"]["id"])


def _named(output: Sequence[Node], source: str, known: Texts) -> Columns:
    found = {_id(each): f"{source}.{each.fields['name']}" for each in output}
    return Columns(list(found), {**known, **found})


def _together(ids: Sequence[int], by_position: Iterable[Sequence[str]], known: Texts) -> Columns:
    """Return columns that have values of several kinds; in which order these come does not matter."""
    found = [" | ".join(sorted({*each})) for each in by_position]
    return Columns(list(ids), {**known, **dict(zip(ids, found, strict=True))})


def _rows(node: Node) -> Iterator[list[Node]]:
    for row in node.fields["projections"]:
        yield list(_expressions(row))


def _joins_left_only(node: Node) -> bool:
    kind = str(node.fields["joinType"])
    return "LeftSemi" in kind or "LeftAnti" in kind


def _passed_on(node: Node, ids: list[int], known: Texts) -> Columns:
    """Return the columns of the children, and those that an operator adds, such as those of an exploded list."""
    if "generatorOutput" in node.fields:
        by = ", ".join(written(each, known) for each in node.expressions("generator"))
        more = _named(node.expressions("generatorOutput"), f"{node.kind}({by})", known)
        return Columns(ids + more.ids, more.texts)
    if "output" in node.fields and not node.children:
        return _named(node.expressions("output"), node.kind, known)
    return Columns(ids, dict(known))


def _settings(expression: Node) -> Iterator[str]:
    """Yield what decides an expression's value beside its children."""
    for name, value in sorted(expression.fields.items()):
        if name in NOT_MEANT or value is None or _is_child(name, value):
            continue
        yield f"{name}={_plain(value)}"


def _is_child(name: str, value: object) -> bool:
    """Return whether a field refers to children, by their number or by their content."""
    if isinstance(value, list):
        return any(_is_child(name, each) for each in value)
    if isinstance(value, dict):
        return "class" in value or any(_is_child(name, each) for each in value.values())
    return isinstance(value, int) and not isinstance(value, bool) and name not in NUMBERS


def _columns_in(text: str) -> str:
    """Return the columns of sources that a text names."""
    return ", ".join(sorted({*COLUMN.findall(text)}))


def _plain(value: object) -> str:
    if isinstance(value, dict) and "object" in value:
        return str(value["object"]).rpartition(".")[2].rstrip("$")
    return json.dumps(value, sort_keys=True)
