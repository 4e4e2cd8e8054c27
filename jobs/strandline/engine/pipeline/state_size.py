"""The number of rows in a query's state, polled now and then."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

WEIGH = 10.0
"""Seconds between two polls: each is a call over py4j."""


def weighing(holds: Callable[[int], None]) -> Callable[[StreamingQuery], None]:
    """Return a function that reports the number of rows in a query's state when a poll is due."""
    due = 0.0

    def weigh(query: StreamingQuery) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + WEIGH
        progress = query.lastProgress
        if progress is not None:
            holds(sum(each.numRowsTotal for each in progress.stateOperators))

    return weigh
