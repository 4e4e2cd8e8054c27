"""What a table's stream would run: its sources, its operators with state, its watermarks and its columns, as plain values.

Two plans are compared by what their state means, not by how they are written: for each operator with state, in the order
in which Spark numbers them, the columns by which it is keyed and what it keeps for each key.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from strandline.core.table import Judged, Streamed, Upserted
from strandline.core.verdict import with_newest_arrival
from strandline.engine.pipeline.plan_tree import Columns, Node, columns, tree, written
from strandline.engine.pipeline.spark_plan import planned

WATERMARK = re.compile(
    r"EventTimeWatermark (?P<id>[0-9a-f-]{36}), .*?: timestamp\w*, (?P<delay>.+)"
)
UNITS = {
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
    "month": 31 * 86_400_000,
    "year": 372 * 86_400_000,
}
TIME = "_time"
"""The time of a judged row: that of a good row, or the arrival of another (jobs/strandline/core/verdict.py)."""

KEEPS_KEYS = ("Deduplicate", "DeduplicateWithinWatermark")
"""Operators whose state holds no row that is still to be emitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator with state.

    Args:
        kind: Spark's name of it.
        keys: The columns that it is keyed by, each as its name and what it is computed from.
        keeps: What it keeps for a key, in the order in which state stores it.
        rules: What decides which rows meet or when one is emitted.
    """

    kind: str
    keys: tuple[tuple[str, str], ...]
    keeps: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulPlan:
    """What a stream would run.

    Args:
        sources: The tables that it reads, in Spark's order.
        operators: Those with state, in Spark's order.
        watermarks: For each the column, and the delay in milliseconds.
        output_mode: Spark's name of it.
    """

    sources: tuple[str, ...]
    operators: tuple[Operator, ...] = ()
    watermarks: tuple[tuple[str, int], ...] = ()
    output_mode: str = "Append"

    def as_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return asdict(self)

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> "StatefulPlan":
        """Read what ``as_json`` returned."""
        return cls(
            sources=tuple(found["sources"]),
            operators=tuple(
                Operator(
                    kind=each["kind"],
                    keys=tuple((name, text) for name, text in each["keys"]),
                    keeps=tuple(each["keeps"]),
                    rules=tuple(each["rules"]),
                )
                for each in found["operators"]
            ),
            watermarks=tuple((text, delay) for text, delay in found["watermarks"]),
            output_mode=found["output_mode"],
        )


def output_mode(table: Streamed) -> str:
    """Return Spark's name of the mode in which a table's query emits rows."""
    return "Update" if isinstance(table, Upserted) else "Append"


_known: dict[tuple[Streamed, tuple[str, ...]], StatefulPlan] = {}
"""The plans of this process: planning a silver table takes half a second, and many starts run the same."""


def stateful_plan(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> StatefulPlan:
    """Describe what a table's query would run; it depends on the table and on its sources' columns alone.

    Args:
        table: Silver or gold.
        sources: The streaming rows of each source.
        result: The table's rows.
    """
    mark = (table, tuple(rows.schema.json() for rows in sources))
    if mark not in _known:
        _known[mark] = _described(table, sources, result)
    return _known[mark]


def _described(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> StatefulPlan:
    found = logical_plan(table, sources, result)
    operators = tuple(_operators(found.root, found.columns))
    printed = str(found.execution.optimizedPlan().toString())
    watermarks = tuple(_watermarks(found.root, found.columns, printed)) if operators else ()
    if isinstance(table, Judged):
        operators = (replace(operators[0], keys=_identity(table, sources[0])), *operators[1:])
        watermarks = tuple((TIME, delay) for _, delay in watermarks)  # its text has the verdict
    return StatefulPlan(
        sources=tuple(found.places[each] for each in _paths(found.execution.analyzed())),
        operators=operators,
        watermarks=watermarks,
        output_mode=output_mode(table),
    )


@dataclass(frozen=True, slots=True)
class LogicalPlan:
    """Spark's optimized plan of a stream.

    Args:
        execution: Spark's own planning of it.
        root: The plan.
        columns: The columns of each operator, by the ``id`` of its node.
        places: The names of the sources, by their folders.
    """

    execution: Any
    root: Node
    columns: Mapping[int, Columns]
    places: Mapping[str, str]


def logical_plan(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> LogicalPlan:
    """Return the plan that a table's query would run, with each column written down to those of the sources."""
    execution = planned(result, output_mode(table))
    plan = execution.optimizedPlan()
    places = {
        _paths(_analyzed(rows))[0]: of.id for rows, of in zip(sources, table.upstream, strict=True)
    }
    root = tree(str(plan.toJSON()))
    found = columns(root, iter([places[each] for each in _paths(plan)]))
    return LogicalPlan(execution, root, found, places)


def _operators(root: Node, found: Mapping[int, Columns]) -> Iterator[Operator]:
    for node in root.walk():
        operator = _operator(node, found) if is_stateful(node) else None
        if operator is not None:
            yield operator


def is_stateful(node: Node) -> bool:
    """Return whether an operator of a stream keeps state."""
    if node.kind in {"GlobalLimit", "TransformWithStateInPySpark", *KEEPS_KEYS, "Aggregate"}:
        return _reads_a_stream(node)
    return node.kind == "Join" and all(map(_reads_a_stream, node.children))


def _operator(node: Node, found: Mapping[int, Columns]) -> Operator:
    below = [found[id(child)] for child in node.children]
    known = {number: text for each in below for number, text in each.texts.items()}
    match node.kind:
        case "Aggregate":
            keys = node.expressions("groupingExpressions")
            functions = (
                part
                for each in node.expressions("aggregateExpressions")
                for part in each.walk()
                if part.kind == "AggregateExpression"
            )
            keeps = tuple(dict.fromkeys(written(each, known) for each in functions))
            return Operator(kind=node.kind, keys=_keys(keys, known), keeps=keeps)
        case "Join":
            sides = (" / ".join(each.texts[number] for number in each.ids) for each in below)
            condition = [written(each, known) for each in node.expressions("condition")]
            kind = _name(node.fields["joinType"])
            return Operator(kind=node.kind, keys=(), keeps=tuple(sides), rules=(kind, *condition))
        case "TransformWithStateInPySpark":
            count = int(node.fields["groupingAttributesLen"])
            by = tuple((each, each) for each in (below[0].texts[n] for n in below[0].ids[:count]))
            return Operator(kind=node.kind, keys=by, rules=(_name(node.fields["timeMode"]),))
        case kind:
            return Operator(kind=kind, keys=_keys(node.expressions("keys"), known))


def _name(value: Mapping[str, str]) -> str:
    """Return the name of one of Spark's own objects, such as a kind of join."""
    return value["object"].rpartition(".")[2].rstrip("$")


def _keys(keys: Sequence[Node], known: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(each.fields.get("name", each.kind)), written(each, known)) for each in keys)


def _identity(table: Judged, events: DataFrame) -> tuple[tuple[str, str], ...]:
    """Return what makes two rows copies of one event: the table's key and time, as its function computes them.

    The operator itself is keyed by columns that also contain the verdict. A rule that changes decides what becomes of
    later rows; it does not make two events one.
    """
    names = tuple(dict.fromkeys((*table.key, table.event_at)))  # a key may have the time
    rows = table.transform(with_newest_arrival(events)).select(*names)
    root = tree(str(planned(rows, "Append").optimizedPlan().toJSON()))
    found = columns(root, iter(lambda: table.upstream[0].id, None))[id(root)]
    return tuple((name, found.texts[n]) for name, n in zip(names, found.ids, strict=True))


def _watermarks(
    root: Node, found: Mapping[int, Columns], printed: str
) -> Iterator[tuple[str, int]]:
    """Yield the watermarks of a plan; Spark prints no delay in JSON, so it is read from the plan's text."""
    delays = {each["id"]: milliseconds_of(each["delay"]) for each in WATERMARK.finditer(printed)}
    for node in root.walk():
        if node.kind == "EventTimeWatermark":
            (time,) = node.expressions("eventTime")
            text = written(time, found[id(node)].texts)
            yield text, delays[str(node.fields["nodeId"])]


def milliseconds_of(interval: str) -> int:
    """Return the length of an interval as Spark prints it.

    >>> milliseconds_of("1 hours 15 minutes 0.001 seconds")
    4500001
    """
    parts = interval.split()
    return round(
        sum(
            float(number) * UNITS[unit.removesuffix("s")]
            for number, unit in zip(parts[::2], parts[1::2], strict=True)
        )
    )


def _reads_a_stream(node: Node) -> bool:
    return any(each.kind == "StreamingRelation" for each in node.walk())


def _analyzed(rows: DataFrame) -> Any:  # noqa: ANN401  # py4j's objects have no types
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # there is no public way


def _paths(plan: Any) -> list[str]:  # noqa: ANN401  # as above
    """Return the folders of the Delta tables that a plan follows, in the order of the plan.

    Spark keeps an offset for each place at which a plan reads a table, also where it reads the same one twice.
    """
    leaves = plan.collectLeaves()
    found = (leaves.apply(number) for number in range(leaves.length()))
    return [
        str(leaf.dataSource().options().apply("path"))
        for leaf in found
        if leaf.getClass().getSimpleName() == "StreamingRelation"
    ]
