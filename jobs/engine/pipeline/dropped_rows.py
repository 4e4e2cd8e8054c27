"""Count what the operators of a stream drop below the watermark, beyond the first of them, before a batch is committed.

What the first operator drops are rows of a source; they are counted from the source itself (batch_accounting.py). An
operator above it gets rows that no table has, so only Spark can count them. Its figures are final once the batch's rows are
written, which is before their commit: so they are in the entry, and a batch that is killed and runs again counts anew.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from jobs.engine.pipeline.joined_streams import STATEFUL, each_of
from jobs.engine.runtime.jvm import classic, jvm

DROPPED = "numRowsDroppedByWatermark"
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
        running = classic(spark).sharedState().activeStreamingQueries()
        query = running.get(jvm(spark).java.util.UUID.fromString(stream))
        if query is None:
            return NONE
        found: dict[str, int] = {}
        self._is_chained = _walk(query.lastExecution().executedPlan(), found) > 1
        return found


def _walk(node: Any, found: dict[str, int]) -> int:  # noqa: ANN401  # py4j's objects have no types
    """Note what the operators above others have dropped; return how many operators with state follow each other."""
    below = max((_walk(each, found) for each in each_of(node.children())), default=0)
    does = STATEFUL.get(str(node.getClass().getSimpleName()))
    if does is None:
        return below
    dropped = int(node.metrics().apply(DROPPED).value()) if below else 0
    if dropped:
        found[does] = found.get(does, 0) + dropped
    return below + 1
