"""Spark's own planning of a stream's batch, without starting the stream.

Spark compares a query with the state that it continues when it plans the first batch after a start: number and kinds of
the operators, the types of keys and values, the state variables of a processor. The same planning over a copy of what a
checkpoint has about its state gives Spark's own answer, and reads and writes nothing of the checkpoint itself.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any, Self

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from strandline.core.parse_registered import READER
from strandline.core.table import Judged, Streamed, Upserted
from strandline.core.verdict import computed
from strandline.engine.lake.mend_checkpoint import copy_metadata, settle
from strandline.engine.lake.open_table import first_names
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
from strandline.engine.lake.spark_checkpoint import next_batch, run_conditions
from strandline.engine.runtime.jvm import classic, jvm

UNKNOWN = "<unknown>"
"""Spark's own word for the checkpoint of a plan that is only explained."""

NEW = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def planned(rows: DataFrame, output_mode: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the plan of a streaming query's batch."""
    return _execution(rows, output_mode, UNKNOWN, batch=0, conditions=NEW, is_restart=False)


def refusal(rows: DataFrame, output_mode: str, checkpoint: Place) -> str | None:
    """Return Spark's error for a restart of a query on a checkpoint; None when it has none."""
    conditions = run_conditions(checkpoint)
    if conditions is None:
        return None
    with scratch() as copy:
        copy_metadata(checkpoint, copy)
        settle(copy)
        execution = _execution(
            rows,
            output_mode,
            str(copy / "state"),
            batch=next_batch(checkpoint),
            conditions=conditions,
            is_restart=True,
        )
        try:
            execution.executedPlan()
        except PySparkException as error:
            return str(error).partition("If you want to force")[0].strip()
    return None


def _execution(  # noqa: PLR0913  # what Spark's constructor wants to know
    rows: DataFrame,
    output_mode: str,
    state: str,
    *,
    batch: int,
    conditions: str,
    is_restart: bool,
) -> Any:  # noqa: ANN401  # as above
    machine, session = jvm(rows.sparkSession), classic(rows.sparkSession).newSession()
    streaming = machine.org.apache.spark.sql.execution.streaming
    pinned = streaming.checkpointing.OffsetSeqMetadata.apply(conditions)
    if is_restart:
        conf = session.sessionState().conf()
        streaming.checkpointing.OffsetSeqMetadata.setSessionConf(pinned, conf)
    companion = getattr(getattr(streaming.runtime, "IncrementalExecution$"), "MODULE$")
    defaults = [getattr(companion, f"$lessinit$greater$default${n}")() for n in range(12, 16)]
    mode = getattr(machine.org.apache.spark.sql.streaming.OutputMode, output_mode)()
    uuid = machine.java.util.UUID
    return streaming.runtime.IncrementalExecution(
        session,
        rows._jdf.queryExecution().analyzed(),  # noqa: SLF001  # there is no public way
        mode,
        state,
        uuid.randomUUID(),
        uuid.randomUUID(),
        batch,
        machine.scala.Option.apply(pinned),
        pinned,
        streaming.runtime.WatermarkPropagator.noop(),
        is_restart,
        *defaults,
    )


# Spark's logical plan as a tree, with every expression written down to the columns of the sources.
#
# Spark prints a plan as JSON. Ids of expressions differ in every process, so two plans are compared by texts in which each
# column is replaced by what it is computed from. A projection that changes no value changes no text.


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
"""A decoder has the schema of a whole payload, and that of Avro a mark that differs in every process
(jobs/strandline/core/parse.py)."""

STRICT = "StrictJson"
"""The reader of JSON (infra/strandline_infra/spark/strict)."""

SIGNS = ((5, "EqualTo({}, -)"), (8, "EqualTo({}, -)"), (11, "In({}, T,  )"), (14, "EqualTo({}, :)"))
"""Where a whole time has which signs (jobs/strandline/core/parse.py)."""

COLUMN = re.compile(r"\b(?:bronze|silver|gold)\.\w+\.\w+")

ADDRESS = re.compile(r"^\[B@[0-9a-f]+$")
"""Spark prints bytes by where they lie in memory, which differs at every start."""

NUMBERS = ("precision", "scale", "ordinal")
"""Fields that are numbers; any other number in a field is the place of a child."""


class Source(str):
    """The name of a source. A column of it that was renamed has in texts the name that it had first, or state would seem to be another.

    Args:
        name: The name.
        was: The first names of its columns that have others now.
    """

    __slots__ = ("_was",)
    _was: Mapping[str, str]

    def __new__(cls, name: str, was: Mapping[str, str]) -> Self:
        """Return the name of a source."""
        made = super().__new__(cls, name)
        made._was = was
        return made

    def column(self, name: str) -> str:
        """Return the text of a column."""
        return f"{self}.{self._was.get(name, name)}"


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


def columns(
    root: Node, sources: Iterator[str], write: "Callable[[Node, Texts], str] | None" = None
) -> dict[int, Columns]:
    """Return the columns of each operator, by the ``id`` of its node.

    Args:
        root: The plan.
        sources: The names of the streaming relations, in the order of the plan.
        write: Writes an expression; ``written`` where it is not said.
    """
    found: dict[int, Columns] = {}
    _resolve(root, sources, found, write or written)
    return found


def _resolve(
    node: Node,
    sources: Iterator[str],
    found: dict[int, Columns],
    write: Callable[[Node, Texts], str],
) -> Columns:
    below = [_resolve(child, sources, found, write) for child in node.children]
    found[id(node)] = _columns(node, below, sources, write)
    return found[id(node)]


def _columns(  # noqa: PLR0911  # one for each kind of operator
    node: Node,
    below: Sequence[Columns],
    sources: Iterator[str],
    write: Callable[[Node, Texts], str],
) -> Columns:
    known = {number: text for each in below for number, text in each.texts.items()}
    match node.kind:
        case "StreamingRelation":
            source = next(sources)
            read = source if isinstance(source, Source) else Source(source, {})
            found = {
                _id(each): read.column(each.fields["name"]) for each in node.expressions("output")
            }
            return Columns(list(found), {**known, **found})
        case "Project" | "Aggregate":
            name = "projectList" if node.kind == "Project" else "aggregateExpressions"
            found = {_id(each): write(each, known) for each in node.expressions(name)}
            return Columns(list(found), {**known, **found})
        case "Union":
            by_position = zip(*([each.texts[n] for n in each.ids] for each in below), strict=True)
            return _together(below[0].ids, by_position, known)
        case "Expand":
            rows = ([write(each, known) for each in row] for row in _rows(node))
            ids = [_id(each) for each in node.expressions("output")]
            return _together(ids, zip(*rows, strict=True), known)
        case "TransformWithStateInPySpark" | "FlatMapGroupsInPandasWithState":
            return _named(node.expressions("outputAttrs"), "state", known)
        case "Join" if _joins_left_only(node):
            return Columns(below[0].ids, known)
        case _:
            return _passed_on(node, [n for each in below for n in each.ids], known, write)


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
            return _field(written(expression.children[0], known), expression.fields["name"])
        case kind if kind in (*DECODERS, STRICT) or expression.fields.get("name") == READER:
            return _read_by(expression, known)
        case kind:
            parts = [written(each, known) for each in expression.children]
            return f"{kind}({', '.join([*parts, *settings_of(expression)])})"


class StrictText(str):
    """What the reader of JSON is as text; a field of it has the text that it had when ``from_json`` read it, and casts followed.

    The values are the same, and the state of lakes of before is kept by these texts: others would be other keys to them.

    Args:
        read: The columns that it is read from.
        settings: The reader's own, as Spark prints them.
    """

    __slots__ = ("_kinds", "_zone")
    _kinds: Mapping[str, Any]
    _zone: str

    def __new__(cls, read: str, settings: Json) -> Self:
        """Return the text of what a payload is read as."""
        text = f"GetArrayItem(JsonToStructs({read}), 0, failOnError=false, ordinal=1)"
        made = super().__new__(cls, text)
        made._kinds = {each["name"]: each["type"] for each in settings["declared"]["fields"]}
        made._zone = settings["zone"]
        return made

    def field(self, name: str) -> str:
        """Return the text of a field, its casts included. A list of times was never a key, so it has none."""
        return self._cast(f"{self}.{name}", self._kinds.get(name))

    def _cast(self, read: str, kind: Any) -> str:  # noqa: ANN401  # JSON
        match kind:
            case "timestamp":
                signs = [sign.format(f"Substring({read}, {at}, 1)") for at, sign in SIGNS]
                whole = reduce(lambda left, right: f"And({left}, {right})", signs)
                return f"CaseWhen({whole}, {self._as(read, kind)})"
            case str() if kind.startswith("decimal"):
                number = self._as(read, kind)
                return f"CaseWhen(EqualTo({self._as(number, 'double')}, {read}), {number})"
            case {"type": "struct", "fields": fields}:
                named = [(each["name"], each["type"]) for each in fields]
                inner = [f"{name}, {self._cast(f'{read}.{name}', of)}" for name, of in named]
                return f"CaseWhen(IsNotNull({read}), CreateNamedStruct({', '.join(inner)}))"
            case _:
                return read

    def _as(self, text: str, kind: str) -> str:
        return f'Cast({text}, dataType="{kind}", timeZoneId="{self._zone}")'


def _field(within: str, name: str) -> str:
    return within.field(name) if isinstance(within, StrictText) else f"{within}.{name}"


def _read_by(decoder: Node, known: Texts) -> str:
    """Return a decoder as text: the columns of sources that it reads."""
    named = (each for each in decoder.walk() if each.kind == "AttributeReference")
    read = _columns_in(", ".join(sorted({known.get(_id(each), "?") for each in named})))
    return StrictText(read, decoder.fields) if decoder.kind == STRICT else f"{decoder.kind}({read})"


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


def _passed_on(
    node: Node, ids: list[int], known: Texts, write: Callable[[Node, Texts], str]
) -> Columns:
    """Return the columns of the children, and those that an operator adds, such as those of an exploded list."""
    if "generatorOutput" in node.fields:
        by = ", ".join(write(each, known) for each in node.expressions("generator"))
        more = _named(node.expressions("generatorOutput"), f"{node.kind}({by})", known)
        return Columns(ids + more.ids, more.texts)
    if "output" in node.fields and not node.children:
        return _named(node.expressions("output"), node.kind, known)
    return Columns(ids, dict(known))


def settings_of(expression: Node) -> Iterator[str]:
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


# What a table's stream would run: its sources, its operators with state, its watermarks and its columns, as plain values.
#
# Two plans are compared by what their state means, not by how they are written: for each operator with state, in the order
# in which Spark numbers them, the columns by which it is keyed and what it keeps for each key.


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
        columns: The columns of its rows, each with a hash of what it means; none where that is not known.
        rows: A hash of what decides which rows there are; empty where that is not known.
    """

    sources: tuple[str, ...]
    operators: tuple[Operator, ...] = ()
    watermarks: tuple[tuple[str, int], ...] = ()
    output_mode: str = "Append"
    columns: tuple[tuple[str, str], ...] = ()
    rows: str = ""

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
            columns=tuple((name, mark) for name, mark in found.get("columns", ())),
            rows=found.get("rows", ""),
        )


def output_mode(table: Streamed) -> str:
    """Return Spark's name of the mode in which a table's query emits rows."""
    return "Update" if isinstance(table, Upserted) else "Append"


def described(table: Streamed, sources: Sequence[DataFrame], found: "LogicalPlan") -> StatefulPlan:
    """Describe what a table's query would run, by its plan."""
    operators = tuple(_operators(found.root, found.columns))
    printed = str(found.execution.optimizedPlan().toString())
    watermarks = tuple(_watermarks(found.root, found.columns, printed)) if operators else ()
    if isinstance(table, Judged) and operators:
        operators = (replace(operators[0], keys=_identity(table, sources[0])), *operators[1:])
        watermarks = tuple((TIME, delay) for _, delay in watermarks)  # its text has the verdict
    return StatefulPlan(
        sources=tuple(str(found.places[each]) for each in _paths(found.execution.analyzed())),
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
        read: The names of the sources, in the order of the plan.
    """

    execution: Any
    root: Node
    columns: Mapping[int, Columns]
    places: Mapping[str, str]
    read: tuple[str, ...]


def logical_plan(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> LogicalPlan:
    """Return the plan that a table's query would run, with each column written down to those of the sources."""
    execution = planned(result, output_mode(table))
    plan = execution.optimizedPlan()
    places = {}
    for rows, of in zip(sources, table.upstream, strict=True):
        folder = _paths(_analyzed(rows))[0]
        places[folder] = Source(of.id, first_names(Place.of(folder)))
    root = tree(str(plan.toJSON()))
    read = tuple(places[each] for each in _paths(plan))
    return LogicalPlan(execution, root, columns(root, iter(read)), places, read)


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
    rows = computed(events, table).select(*names)
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
