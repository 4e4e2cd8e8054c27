"""How far apart in time the rows are that meet in a table's stream, and whether Spark would drop what is joined late.

Spark drops below the watermark at every operator with state, not only at the first. A join may emit a row whose time is
long past: one side has waited in its state, for as long as the condition admits. Spark lowers the watermark of what is
above by that time, if the condition bounds it. If nothing does, it does not, and an aggregation above drops these rows
without a word: which ones depends on how the log fell into batches.

And where the condition bounds a column that is not the event time of its side (`bid_at <= expires_at`), Spark takes the bound
for one of the event time: it forgets an auction once the watermark has passed its beginning, and bids that come later meet
nothing; no figure of Spark's shows it.

So the bounds are read from Spark's own plan. They also say how long after its sources' watermark a window of joined rows
is final, and how far from a range the rows lie from which it is computed again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.kind import milliseconds
from strandline.core.table import Streamed, Upserted
from strandline.engine.flow.spark_plan import LogicalPlan, Node, logical_plan, written
from strandline.engine.runtime.jvm import jvm

DELAY = "spark.watermarkDelayMs"
"""Spark's mark of a column with the time of a watermark, in the column's metadata."""

JOIN = "StreamingSymmetricHashJoinExec"
STATEFUL = {
    JOIN: "joins",
    "StateStoreSaveExec": "aggregates",
    "SessionWindowStateStoreSaveExec": "aggregates",
    "StreamingDeduplicateExec": "de-duplicates",
    "StreamingDeduplicateWithinWatermarkExec": "de-duplicates",
    "TransformWithStateInPySparkExec": "folds",
    "FlatMapGroupsInPandasWithStateExec": "folds",
}
"""Spark's operators that drop rows below the watermark, and what they do with the others."""

LOCAL = frozenset(
    {
        "Project",
        "Filter",
        "Union",
        "Expand",
        "Generate",
        "EventTimeWatermark",
        "CollectMetrics",
        "StreamingRelation",
        "LocalRelation",
        "OneRowRelation",
        "Range",
        "Repartition",
        "RepartitionByExpression",
    }
)
"""Operators in which a row does not depend on rows of another time."""

STREAMING = "org.apache.spark.sql.execution.streaming"

AGES = 10**13
"""A watermark in milliseconds against which Spark's bounds are read; far from 0, where it cuts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What the plan of a table's stream says of the times of rows that meet.

    Args:
        waits: How long after the watermark of its sources a row of the table is final.
        apart: How far apart the rows lie that meet in its joins; None where a join sets no bound.
        is_local: Whether nothing but these joins looks at rows of another time.
        lossy: For each way in which rows may be lost, the column with the time of the rows that wait, and a sentence.
        ends: The columns of the table that are the end of a window, and nothing later.
    """

    waits: timedelta = timedelta(0)
    apart: timedelta | None = timedelta(0)
    is_local: bool = True
    lossy: tuple[tuple[str, str], ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def reach(self) -> timedelta | None:
        """Return how far from a range the rows lie from which its rows are computed; None where the plan does not say."""
        return self.apart if self.is_local else None


_known: dict[tuple[Streamed, tuple[str, ...]], Joined] = {}


def joined(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> Joined:
    """Read the bounds of a table's joins from the plan of its stream.

    Args:
        table: Gold, or silver that is derived.
        sources: The streaming rows of each source.
        result: The table's rows.
    """
    mark = (table, tuple(rows.schema.json() for rows in sources))
    if mark not in _known:
        _known[mark] = _Reader(
            result.sparkSession, logical_plan(table, sources, result), table
        ).read()
    return _known[mark]


def refuse_losing_join(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> None:
    """Refuse a table in which Spark would drop joined rows, or whose windows a batch would call final too early.

    Raises:
        DefinitionError: It would; the hint says what to write.
    """
    found = joined(table, sources, result)
    for time, sentence in found.lossy:
        raise DefinitionError(
            f"{table.id} {sentence}",
            hint="add to the join's condition the longest time between two rows that meet, such as "
            f"`other_time <= {time} + INTERVAL 4 HOURS`; where there is none, declare the table as Recomputed with "
            'reach="4 hours", as far as partners lie apart.',
            table=table.id,
        )
    if found.waits and table.closes_at in found.ends:
        late = milliseconds(found.waits)
        raise DefinitionError(
            f"{table.id} calls a window final at its end, {table.closes_at}, but its join emits rows of it for another "
            f"{found.waits}: a batch would have windows that its stream still waits for",
            hint=f"add a column with {table.closes_at} + INTERVAL '{late / 1000}' SECOND, and let `closes_at` be it.",
            table=table.id,
            waits_ms=late,
        )


AGGREGATED = "AggregateExpression("
"""How the text of a column names what an aggregate computes."""


def refuse_moving_window(table: Streamed, sources: Sequence[DataFrame], result: DataFrame) -> None:
    """Refuse a table of latest rows that finds the window of a key from what it aggregates.

    A batch replaces rows of a key in the partitions that it touches. If the window is that of the newest row, the row of before
    stays in another partition, and the key has two, of which a batch over everything has one.

    Raises:
        DefinitionError: It does.
    """
    if not isinstance(table, Upserted) or table.window_from not in result.columns:
        return
    plan = logical_plan(table, sources, result)
    found = plan.columns[id(plan.root)]
    text = found.texts[found.ids[result.columns.index(table.window_from)]]
    if AGGREGATED in text:
        raise DefinitionError(
            f"{table.id} aggregates {table.window_from}, the window of a key: with later rows it becomes another one, and the row "
            "of before would stay beside the new one",
            hint="let it be what a key has once and for all: a window or a column that the rows are grouped by, or a constant such as "
            "timestamp'1970-01-01' where there are few keys.",
            table=table.id,
            window_from=table.window_from,
        )


@dataclass(slots=True)
class _Side:
    """One side of a join.

    Args:
        times: Its event times.
        waits: By how much the watermark may have passed the time of one of its rows when its last partner comes; None where
            no condition bounds it.
        kept: By how much it may have passed when Spark forgets the row; None for ever.
    """

    times: tuple[str, ...]
    waits: int | None
    kept: int | None


class _Reader:
    def __init__(self, spark: SparkSession, plan: LogicalPlan, table: Streamed) -> None:
        self._machine = jvm(spark)
        self._plan = plan
        self._table = table
        self._texts = {n: t for each in plan.columns.values() for n, t in each.texts.items()}
        self._lossy: list[tuple[str, str]] = []
        self._bounds: list[int | None] = []
        self._windows: set[str] = set()

    def read(self) -> Joined:
        root = self._plan.execution.sparkPlan()
        waits, _ = self._walk(root)
        is_local = all(map(self._is_local, self._plan.root.walk()))
        bounds = self._bounds
        apart = None
        if None not in bounds:
            # Rows that meet because they are in the same window lie up to its length apart.
            apart = sum(
                (timedelta(milliseconds=each or 0) + self._table.window_length for each in bounds),
                timedelta(0),
            )
        ends = tuple(
            str(each.name())
            for each in each_of(root.output())
            if self._text(each).removesuffix(".end") in self._windows
            and self._text(each).endswith(".end")
        )
        return Joined(
            waits=timedelta(milliseconds=waits),
            apart=apart,
            is_local=is_local,
            lossy=tuple(dict.fromkeys(self._lossy)),
            ends=ends,
        )

    def _walk(self, node: Any) -> tuple[int, list[_Side]]:  # noqa: ANN401  # py4j's objects have no types
        """Return by how much Spark lowers the watermark above an operator, and the sides of all joins up to it."""
        below = [self._walk(each) for each in each_of(node.children())]
        waits = max((each for each, _ in below), default=0)
        sides = [side for _, found in below for side in found]
        name = str(node.getClass().getSimpleName())
        if name not in STATEFUL:
            return waits, sides
        times = [text for each in each_of(node.children()) for text in self._times(each)]
        self._lossy += [
            _dropped(STATEFUL[name], time)
            for side in sides
            if side.waits is None
            for time in side.times
            if any(time in each for each in times)
        ]
        if name != JOIN:
            self._windows |= {*times}
            return waits, sides
        own = self._sides(node, waits)
        self._lossy += [
            _forgotten(side.times[0])
            for side in own
            if side.waits is None and side.kept is not None
        ]
        known = [side.waits for side in own if side.waits is not None]
        self._bounds += [None if len(known) < len(own) else max(known) - waits]
        return max([waits, *(side.kept for side in own if side.kept is not None)]), [*sides, *own]

    def _sides(self, node: Any, waits: int) -> list[_Side]:  # noqa: ANN401  # as above
        option = self._machine.scala.Option
        left, right, at = node.left().output(), node.right().output(), option.apply(AGES - waits)
        keys, condition = (node.leftKeys(), node.rightKeys()), node.condition().full()
        helper = self._module(
            f"{STREAMING}.operators.stateful.join.StreamingSymmetricHashJoinHelper"
        )
        kept = helper.getStateWatermark(left, right, *keys, condition, at, False)
        is_by_time = any(_is_time(each) for each in each_of(keys[0]))
        sides = []
        for mine, other, bound in ((left, right, kept._1()), (right, left, kept._2())):  # noqa: SLF001  # Scala's pair
            times = [each for each in each_of(mine) if _is_time(each)]
            sure = bound
            if not is_by_time and times and condition.isDefined():
                sets = self._module("org.apache.spark.sql.catalyst.expressions.AttributeSet")
                bounds = self._module("org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper")
                own = sets.apply(times[0])
                sure = bounds.getStateValueWatermark(own, sets.apply(other), condition, at)
            sides.append(_Side(tuple(map(self._text, times)), _lag(sure), _lag(bound)))
        return sides

    def _module(self, name: str) -> Any:  # noqa: ANN401  # as above
        """Return one of Scala's objects."""
        java = self._machine.java.lang
        loader = java.Thread.currentThread().getContextClassLoader()
        return java.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)

    def _times(self, node: Any) -> Iterator[str]:  # noqa: ANN401  # as above
        """Yield the columns of an operator that carry a watermark, written down to those of the sources."""
        for each in each_of(node.output()):
            if _is_time(each):
                yield self._text(each)

    def _text(self, attribute: Any) -> str:  # noqa: ANN401  # as above
        return self._texts.get(int(attribute.exprId().id()), str(attribute.name()))

    def _is_local(self, node: Node) -> bool:
        """Return whether a row that an operator emits depends on rows near its own time alone."""
        if node.kind in LOCAL:
            return True
        if node.kind == "Join":  # of two streams: its bound is known; else with constants
            return True
        known = self._known_below(node)
        times = [f"{source.id}.{source.event_at}" for source in self._table.upstream]
        fields = {"Aggregate": "groupingExpressions", "Deduplicate": "keys"}
        keys = node.expressions(fields[node.kind]) if node.kind in fields else []
        return any(time in written(key, known) for key in keys for time in times)

    def _known_below(self, node: Node) -> Mapping[int, str]:
        return {
            number: text
            for child in node.children
            for number, text in self._plan.columns[id(child)].texts.items()
        }


def _dropped(does: str, time: str) -> tuple[str, str]:
    source, _, column = time.rpartition(".")
    return column, (
        f"{does} joined rows by {column}, and its join sets no end to how long a row of {source} waits for its partner: "
        "Spark drops what is joined once the watermark has passed, in silence"
    )


def _forgotten(time: str) -> tuple[str, str]:
    source, _, column = time.rpartition(".")
    return column, (
        f"joins {source} within another column than its event time, {column}: Spark takes the one for the other and "
        f"forgets a row of {source} once the watermark has passed its {column}, before its last partner has come"
    )


def _lag(bound: Any) -> int | None:  # noqa: ANN401  # as above
    """Return by how much a watermark is below that against which bounds are read."""
    return AGES - int(bound.get()) if bound.isDefined() else None


def _is_time(expression: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether a column carries a watermark; a key may be an expression, which carries none."""
    is_column = str(expression.getClass().getSimpleName()) == "AttributeReference"
    return is_column and bool(expression.metadata().contains(DELAY))


def each_of(found: Any) -> Iterator[Any]:  # noqa: ANN401  # as above
    """Yield what one of Scala's sequences holds."""
    return (found.apply(number) for number in range(found.length()))
