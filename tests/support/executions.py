"""How many executions Spark ran: collects, counts and writes, each of which goes over its rows once."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from jobs.run.jvm import classic


def executions(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many executions some work takes."""
    store = classic(spark).sharedState().statusStore()
    before = int(store.executionsCount())
    work()
    return int(store.executionsCount()) - before
