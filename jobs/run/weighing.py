"""How many rows a query remembers between its batches, asked now and then."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

WEIGH = 10.0
"""Seconds; the state is asked for over py4j, as everything else is."""


def weighing(query: StreamingQuery, holds: Callable[[int], None]) -> Callable[[], None]:
    """Return what tells how many rows a query's state has, each time it is due."""
    due = 0.0

    def weigh() -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + WEIGH
        progress = query.lastProgress
        if progress is not None:
            holds(sum(each.numRowsTotal for each in progress.stateOperators))

    return weigh
