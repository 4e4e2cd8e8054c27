"""How many executions Spark ran: collects, counts and writes, each of which goes over its rows once."""

from collections.abc import Callable
from secrets import token_hex

from pyspark.sql import SparkSession

from strandline.engine.runtime.jvm import classic

DESCRIPTION = "spark.job.description"


def executions(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many executions some work takes in the thread that asks, whatever else the session does meanwhile."""
    context, name = spark.sparkContext, token_hex(8)
    before, former = _newest(spark), context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, name)
    try:
        work()
    finally:
        context.setLocalProperty(DESCRIPTION, former)  # type: ignore[arg-type]  # None takes it back
    store = classic(spark).sharedState().statusStore()
    found = (store.execution(each) for each in range(before + 1, _newest(spark) + 1))
    return sum(each.isDefined() and each.get().description() == name for each in found)


def settled(spark: SparkSession) -> None:
    """Wait until Spark's own books of jobs and executions have all of them, which follow a moment later."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def _newest(spark: SparkSession) -> int:
    settled(spark)
    known = classic(spark).sharedState().statusStore().executionsList()
    return -1 if known.isEmpty() else int(known.last().executionId())
