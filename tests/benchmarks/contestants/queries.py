"""Starting hand-written queries, once through or always on, in the same way for each of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.benchmarks.contestants.contestant import Place, Stop

POLL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A streaming query that is not started yet.

    Args:
        name: The table that it fills.
        rows: The streaming DataFrame.
        place: Where it runs.
        write: Called with each batch; Delta's own sink when absent.
        output: The output mode.
    """

    name: str
    rows: DataFrame
    place: Place
    write: Callable[[DataFrame, int], None] | None = None
    output: str = "append"

    def start(self, *, once: bool) -> StreamingQuery:
        """Start it: up to what is there now, or for ever."""
        writer = self._sink().queryName(self.name).outputMode(self.output)
        writer = writer.option("checkpointLocation", self.place.checkpoint(self.name))
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def _sink(self) -> "DataStreamWriter":
        if self.write is not None:
            return self.rows.writeStream.foreachBatch(self.write)
        path = self.place.table(self.name)
        return self.rows.writeStream.format("delta").option("path", path)


def versions(spark: SparkSession) -> dict[str, str]:
    """Return on which Java a session runs."""
    return {"java": spark.sparkContext._jvm.System.getProperty("java.version")}  # type: ignore[union-attr]  # the session is there


def drain(query: Query) -> None:
    """Run a query up to the end of its source."""
    started = query.start(once=True)
    while started.isActive:
        time.sleep(POLL)
    failure = started.exception()
    if failure is not None:
        raise failure


def run_on(queries: Sequence[Query]) -> Stop:
    """Run queries side by side for ever."""
    started = [query.start(once=False) for query in queries]

    def stop() -> None:
        for query in started:
            while (
                query.isActive
                and query.status["isTriggerActive"]
                and query.status["isDataAvailable"]
            ):
                time.sleep(POLL)
            query.stop()

    return stop
