"""Run an action of Spark and show meanwhile how many of its tasks are done.

The action runs in a thread of its own, and Python's main thread waits in short steps, because one that waits inside of
the JVM cannot be interrupted (see the facts about py4j in jobs/strandline/engine/service/stream_host.py).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError  # noqa: A004  # its own name
from typing import TypeVar

from pyspark.sql import SparkSession

T = TypeVar("T")
Show = Callable[[int, int], None]
"""Gets the number of tasks that are done, and of all that are known of."""

LOOK = 0.5
"""Seconds between two looks."""


def watched(spark: SparkSession, action: Callable[[], T], show: Show) -> T:
    """Return what an action returns.

    Args:
        spark: The session; no other job of it may run meanwhile, because its tasks would be counted too.
        action: Starts a job and waits for it.
        show: Is called every half second while tasks are under way.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        answer: Future[T] = pool.submit(action)
        try:
            while True:
                try:
                    return answer.result(timeout=LOOK)
                except TimeoutError:
                    if answer.done():
                        raise
                    show(*_tasks(spark))
        except BaseException:
            spark.sparkContext.cancelAllJobs()
            raise


def _tasks(spark: SparkSession) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
