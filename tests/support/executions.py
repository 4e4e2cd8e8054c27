"""How many executions Spark ran: collects, counts and writes, each of which goes over its rows once."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from strandline.engine.runtime.jvm import classic


def executions(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many executions some work takes, by the numbers that Spark gives them."""
    before = _newest(spark)
    work()
    return _newest(spark) - before


def _newest(spark: SparkSession) -> int:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # Spark reports them a little later
    known = classic(spark).sharedState().statusStore().executionsList()
    return -1 if known.isEmpty() else int(known.last().executionId())
