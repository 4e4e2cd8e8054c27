"""The batch that a table is at, and since when it has not moved, so that one that never comes back is seen."""

import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.engine.runtime.jvm import moves

LOOK = 10.0
"""Seconds between two looks at a batch that runs."""


class Running:
    """What a table is at, kept by the thread that follows it and read by the one that writes the heartbeat."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin between two batches."""
        self._clock = clock
        self._since: float | None = None
        self.batch: int | None = None
        """Its number, where it has been handed to Python."""
        self.thread: int | None = None
        """The thread of Python that it was handed to."""
        self.group: str | None = None
        """The group of its jobs in Spark."""

    def begins(self, batch: int | None = None) -> None:
        """Note that a batch runs, or has moved."""
        self.batch, self._since = batch, self._clock()

    def handed(self, batch: int | None = None) -> None:
        """Note that a batch runs in this thread."""
        self.thread = threading.get_ident()
        self.begins(batch)

    def moved(self) -> None:
        """Note that what runs has moved."""
        if self._since is not None:
            self._since = self._clock()

    def ends(self) -> None:
        """Note that no batch runs."""
        self.batch = self._since = self.thread = None

    @property
    def idle(self) -> float | None:
        """Return for how many seconds what runs has not moved; None where nothing runs."""
        since = self._since
        return None if since is None else self._clock() - since

    def __str__(self) -> str:
        """Return what runs, in words."""
        return "a batch" if self.batch is None else f"batch {self.batch}"


class Lookout:
    """Looks from time to time whether the batch of a query moves."""

    def __init__(
        self,
        spark: SparkSession,
        running: Running,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the first look due after a while."""
        self._spark, self._running, self._clock = spark, running, clock
        self._due = clock() + LOOK
        self._seen: object = None

    def look(self, query: StreamingQuery) -> None:
        """Look, if a look is due."""
        self._running.group = str(query.runId)
        if self._clock() < self._due:
            return
        self._due = self._clock() + LOOK
        if not query.status["isTriggerActive"]:
            self._running.ends()
            return
        now = moves(self._spark, str(query.runId)).figures, self._running.batch
        if now != self._seen or self._running.idle is None:
            self._seen = now
            self._running.begins(self._running.batch)
