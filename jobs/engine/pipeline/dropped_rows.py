"""Count what the operators of a stream drop below the watermark, before a batch is committed.

What the first operator drops are rows of a source; they are counted from the source itself (batch_accounting.py), by windows
of the declared length. A session that is shorter ends earlier, and so Spark refuses a row that this count believes to be in
time: where windows are not as declared, Spark's figure counts if it is larger; it is of rows or, where they were added up
before, of groups of them. An operator above it gets rows that no table has, so only Spark can count them. Its figures are
final once the batch's rows are written, which is before their commit: so they are in the entry, and a batch that is killed
and runs again counts anew.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from jobs.engine.pipeline.joined_streams import STATEFUL, each_of
from jobs.engine.runtime.jvm import classic, jvm

DROPPED = "numRowsDroppedByWatermark"
SESSIONS, RESTORES = "SessionWindowStateStoreSave", "SessionWindowStateStoreRestore"
NONE: Mapping[str, int] = {}


class DroppedRows:
    """What the operators of one table's query drop; a query without an operator above another is looked at once."""

    def __init__(self) -> None:
        """Begin; nothing is known of the query."""
        self._is_chained: bool | None = None

    def count(self, spark: SparkSession, stream: str) -> Mapping[str, int]:
        """Return how many rows each operator above another has dropped in the batch that runs, by what it does.

        Args:
            spark: The session of the batch.
            stream: The query's id.
        """
        if self._is_chained is False:
            return NONE
        plan = _plan(spark, stream)
        if plan is None:
            return NONE
        found: dict[str, int] = {}
        self._is_chained = _walk(plan, found) > 1
        return found


def refused_first(spark: SparkSession, stream: str) -> int:
    """Return how many rows of the sources the first operators have dropped in the batch that runs, as Spark counts them."""
    plan = _plan(spark, stream)
    return 0 if plan is None else _first(plan)[1]


def _plan(spark: SparkSession, stream: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
    running = classic(spark).sharedState().activeStreamingQueries()
    query = running.get(jvm(spark).java.util.UUID.fromString(stream))
    return None if query is None else query.lastExecution().executedPlan()


def _first(node: Any) -> tuple[bool, int]:  # noqa: ANN401  # as above
    """Return whether there is an operator with state up to a node, and what those without another below have dropped."""
    below = [_first(each) for each in each_of(node.children())]
    is_there, dropped = any(each for each, _ in below), sum(rows for _, rows in below)
    if is_there or _kind(node) not in STATEFUL:
        return is_there, dropped
    return True, _dropped(node)


def _walk(node: Any, found: dict[str, int]) -> int:  # noqa: ANN401  # py4j's objects have no types
    """Note what the operators above others have dropped; return how many operators with state follow each other."""
    below = max((_walk(each, found) for each in each_of(node.children())), default=0)
    does = STATEFUL.get(_kind(node))
    if does is None:
        return below
    dropped = _dropped(node) if below else 0
    if dropped:
        found[does] = found.get(does, 0) + dropped
    return below + 1


def _dropped(node: Any) -> int:  # noqa: ANN401  # as above
    """Return what an operator has dropped; that of sessions does so where it reads its state."""
    at = node
    if _kind(node).startswith(SESSIONS):
        while not _kind(at).startswith(RESTORES):
            (at,) = each_of(at.children())
    return int(at.metrics().apply(DROPPED).value())


def _kind(node: Any) -> str:  # noqa: ANN401  # as above
    return str(node.getClass().getSimpleName())
