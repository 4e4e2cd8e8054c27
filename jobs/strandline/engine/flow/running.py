"""What a run is at and what it has done: its batch, the rows of its state, its figures.

The batch that a table is at, and since when it has not moved, so that one that never comes back is seen.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.engine.accounting.balance_sheet import copies_said
from strandline.engine.lake.log.ledger import Entry
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
        self.owes: Callable[[Mapping[str, int | None]], bool] = lambda _: False
        """Says by the newest versions whether something beside its batches is still to be done, so that it may not rest."""

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
        self._of: StreamingQuery | None = None

    def look(self, query: StreamingQuery) -> None:
        """Look, if a look is due."""
        if query is not self._of:  # the id is three calls over py4j, twenty times a second
            self._of, self._running.group = query, str(query.runId)
        if self._clock() < self._due:
            return
        self._due = self._clock() + LOOK
        if not query.status["isTriggerActive"]:
            self._running.ends()
            return
        now = moves(self._spark, str(self._running.group)).figures, self._running.batch
        if now != self._seen or self._running.idle is None:
            self._seen = now
            self._running.begins(self._running.batch)


# The number of rows in a query's state, polled now and then.


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


# The figures of a run, for a person or a program, and the run of another program that it is a part of.


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The run of another program that this one is a part of."""

    run: str
    job: str
    namespace: str


@dataclass(slots=True, kw_only=True)
class Report:
    """The sum of a run's batches."""

    table: str
    mode: str
    batches: int = 0
    read: int = 0
    good: int = 0
    duplicates: int = 0
    keeps_copies: bool = False
    quarantined: Counter[str] = field(default_factory=Counter)
    held_items: int = 0
    """Of what is held, the items of records that are believed."""
    skipped: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
    dropped_by_watermark: int = 0
    lost_by_function: int = 0
    made_by_function: int = 0
    written: int = 0
    seconds: float = 0.0
    books_open: str = ""
    """Why the books could not be closed, which costs readers of the ledger time."""

    @property
    def copies(self) -> int | str:
        """Return the number of copies, or in words that none is looked for."""
        return copies_said(self.duplicates, keeps_copies=self.keeps_copies)

    @property
    def held_records(self) -> int:
        """Return the number of records that are held, without the items of believed ones."""
        return self.quarantined.total() - self.held_items

    def add(self, entry: Entry) -> None:
        """Add the figures of one batch."""
        self.batches += 1
        self.read += entry.read
        self.good += entry.good
        self.duplicates += entry.duplicates
        self.keeps_copies |= entry.keeps_copies
        self.quarantined.update(entry.quarantined)
        self.held_items += entry.held_items
        self.skipped.update(entry.skipped)
        self.broke.update(entry.broke)
        self.failed.update(entry.failed)
        self.dropped_by_watermark += entry.dropped_by_watermark
        self.lost_by_function += entry.lost_by_function
        self.made_by_function += entry.made_by_function
        self.written += entry.written
        self.seconds += entry.duration_ms / 1000

    def as_json(self) -> dict[str, object]:
        """Return the figures for a program; ``asdict`` would count the pairs of a Counter (Python 3.11)."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **values,
            "quarantined": dict(self.quarantined),
            "skipped": dict(self.skipped),
            "broke": dict(self.broke),
            "failed": sorted(self.failed),
        }
