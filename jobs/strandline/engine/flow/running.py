"""What a run is at and what it has done: its batch, the rows of its state, its figures; and whether its last batches come back.

The batch that a table is at, and since when it has not moved, so that one that never comes back is seen.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from types import CodeType, FrameType
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import copies_said
from strandline.engine.accounting.process_lines import State
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.plain_files import is_scratch
from strandline.engine.runtime.jvm import SparkGoneError, Work, moves

MOVES_EVERY = 10.0
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
        self._due = clock() + MOVES_EVERY
        self._seen: object = None
        self._of: StreamingQuery | None = None

    def look(self, query: StreamingQuery) -> None:
        """Look, if a look is due."""
        if query is not self._of:  # the id is three calls over py4j, twenty times a second
            self._of, self._running.group = query, str(query.runId)
        if self._clock() < self._due:
            return
        self._due = self._clock() + MOVES_EVERY
        if not query.status["isTriggerActive"]:
            self._running.ends()
            return
        now = moves(self._spark, str(self._running.group)).figures, self._running.batch
        if now != self._seen or self._running.idle is None:
            self._seen = now
            self._running.begins(self._running.batch)


# What the operators of a query keep as state, polled now and then.


WEIGH = 10.0
"""Seconds between two polls: each is a call over py4j."""

ON_DISK = "rocksdbSstFileSize"
"""Spark's figure for the files of a state that is in RocksDB."""

_states: dict[tuple[str, str], Sequence[State]] = {}
"""Of the tables of this process, by their lake, what their streams keep, as Spark said it last."""


def states(lake: Lake) -> dict[str, Sequence[State]]:
    """Return what the streams of this process keep, by table; those without a state are not in it."""
    return {table: kept for (root, table), kept in [*_states.items()] if root == str(lake.root)}


def weigh(query: StreamingQuery, table: Table, lake: Lake) -> Sequence[State]:
    """Remember what the operators of a query keep, and return it."""
    progress = query.lastProgress
    if progress is None:
        return ()
    found = [
        State(
            operator=each.operatorName,
            rows=each.numRowsTotal,
            memory=each.memoryUsedBytes,
            disk=int(each.customMetrics.get(ON_DISK, 0)),
        )
        for each in progress.stateOperators
    ]
    if found and not is_scratch(lake.root):
        _states[str(lake.root), table.id] = found
    return found


def weighing(
    holds: Callable[[int], None], table: Table, lake: Lake
) -> Callable[[StreamingQuery], None]:
    """Return a function that reports the number of rows in a query's state when a poll is due."""
    due = 0.0

    def poll(query: StreamingQuery) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + WEIGH
        if query.lastProgress is not None:
            holds(sum(each.rows for each in weigh(query, table, lake)))

    return poll


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
    core_seconds: float = 0.0
    """The CPU that its batches have used themselves."""
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
        self.core_seconds += entry.own_ms / 1000

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


# Whether the batches come back that a stream waits for, once it is asked to end.
#
# One that moves has a minute: its jobs, its tasks or its rows go on, or Spark's driver works for it, which plans and commits. One that
# does not has seconds: a function of a table that waits for something outside never comes back, and a JVM that does not
# answer brings no batch back at all. They are killed with the JVM, and the next start does the same batches again.
#
# The looks are those of a thread, because a call of a JVM that does not answer never returns; while one does not, no batch moves.

ENDS = 60.0
"""Seconds that a batch which moves has to end, from the request on; and those within which a busy one must have moved."""
STILL = 15.0
"""Seconds without a sign of life after which a batch hangs; Spark knows every ten of the rows of a task."""
LOOK = 1.0
NAMED = 3
"""Batches that a sentence names; the others are counted."""

BOUNDED = ("/py4j/", "/jobs/strandline/engine/lake/", "/jobs/strandline/engine/kafka/")
"""Code of Python that waits for the JVM, which is looked at by itself, or for a service, with a bound of its own."""
INNERMOST = 3
"""The calls that say what is waited for; a batch that Spark has handed over has Spark's own around it."""


class LastBatches(threading.Thread):
    """Looks, until it is ended, whether the batches of some tables move."""

    def __init__(
        self,
        spark: SparkSession,
        running: Mapping[str, Running],
        threads: Mapping[str, threading.Thread],
    ) -> None:
        """Begin with all of them moving."""
        super().__init__(name="last batches", daemon=True)
        self._spark, self._running, self._threads = spark, running, threads
        self._began = self._waited_at = time.monotonic()
        self._signs = dict.fromkeys(threads, self._began)
        """When each table gave its last sign of life."""
        self._looked = dict(self._signs)
        """When each was looked at last: on a busy machine two looks may lie far apart."""
        self._looks_since: float | None = None
        """When the look began that is under way."""
        self._moved = {name: self._began - (each.idle or 0.0) for name, each in running.items()}
        """When each moved last, by its jobs, tasks and rows."""
        self._seen: dict[str, object] = {}
        self._work = Work(spark)
        self._ended = threading.Event()

    def run(self) -> None:
        """Look about once a second."""
        while not self._ended.wait(LOOK):
            is_busy = self._work.goes_on()
            for name in self._left():
                self._looks_since = time.monotonic()
                try:
                    self._look(name, is_busy=is_busy)
                except Exception:  # noqa: BLE001  # the JVM or the query ends: the table's thread has the error, or a minute
                    self._signs[name] = time.monotonic()
                self._looks_since, self._looked[name] = None, time.monotonic()

    def end(self) -> None:
        """End after the running look."""
        self._ended.set()

    @property
    def waited_at(self) -> float:
        """Return until when there was one to wait for."""
        if self._left() and self.refusal() is None:
            self._waited_at = time.monotonic()
        return self._waited_at

    def refusal(self) -> SparkGoneError | None:
        """Return the error of a stream that waits no longer, None while it waits."""
        now, left = time.monotonic(), self._left()
        if not left:
            return None
        is_over = now - self._began > ENDS
        looks_since = self._looks_since
        answers = looks_since is None or now - looks_since < STILL
        if not is_over and answers and not all(map(self._is_still, left)):
            return None
        named = [f"{self._running[name]} of {name}" for name in left]
        more = f" and {len(named) - NAMED:,} others" if len(named) > NAMED else ""
        why = (
            f"within {ENDS:.0f} s of the request to end"
            if is_over
            else f"and did not move for {STILL:.0f} s"
        )
        return SparkGoneError(
            f"{', '.join(named[:NAMED])}{more} did not come back {why}, and Spark was killed",
            hint="nothing is lost or repeated: the next start does those batches again. `strandline logs --of spark` shows what "
            "Spark did; a function that waits for something outside must bound its wait.",
            tables=left,
        )

    def _is_still(self, name: str) -> bool:
        return self._looked[name] - self._signs[name] >= STILL

    def _left(self) -> list[str]:
        return [name for name, thread in self._threads.items() if thread.is_alive()]

    def _look(self, name: str, *, is_busy: bool) -> None:
        running = self._running[name]
        group = running.group
        # Between two batches and before the first the table's own thread is at work, of a query only its group.
        thread = running.thread or (None if group else self._threads[name].ident)
        python = [] if thread is None else list(_stack(thread))
        now = None if group is None else moves(self._spark, group)
        seen = (now and now.figures, [place for _, place in python])
        before, self._seen[name] = self._seen.get(name, seen), seen
        at = time.monotonic()
        if seen != before:
            self._signs[name] = self._moved[name] = at
        elif now is not None and now.runs:
            # A task that works on one row for long looks like one that never comes back, and others wait for its core.
            if is_busy and at - self._moved[name] < ENDS:
                self._signs[name] = at
        elif not python or any(part in file for file, _ in python[:INNERMOST] for part in BOUNDED):
            self._signs[name] = at


def _stack(thread: int) -> Iterator[tuple[str, tuple[CodeType, int]]]:
    """Yield where a thread of Python is, from the innermost call on, each call with its file."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001  # the only way to another thread's
    while frame is not None:
        yield frame.f_code.co_filename, (frame.f_code, frame.f_lasti)
        frame = frame.f_back


# What hears of a run and of each of its commits: a catalog of lineage (jobs/strandline/engine/flow/lineage_events.py), or nothing.

Wrote: TypeAlias = Callable[[Table, Entry], None]
"""Called with each commit of a run."""

Recorder: TypeAlias = Callable[[SparkSession, Table, str, Lake], AbstractContextManager[Wrote]]
"""Records a run of a table in a mode for the length of a block."""


@contextmanager
def unrecorded(spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:  # noqa: ARG001  # as a recorder
    """Record nothing."""
    yield lambda *_: None


Apart: TypeAlias = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""Measures for the length of a block what is done for a table apart from it: what it yields adds seconds of a program or of threads."""


@contextmanager
def unmeasured(table: str) -> Iterator[Callable[[float], None]]:  # noqa: ARG001  # as what measures
    """Measure nothing."""
    yield lambda _: None


@contextmanager
def with_threads(also: Callable[[float], None]) -> Iterator[None]:
    """Add what the other threads of Python use meanwhile: DuckDB compares rows in threads of its own."""
    began = time.process_time() - time.thread_time()
    yield
    also(time.process_time() - time.thread_time() - began)


def together(*recorders: Recorder) -> Recorder:
    """Return what lets several recorders hear of a run."""

    @contextmanager
    def record(spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:
        with ExitStack() as open_ones:
            heard = [open_ones.enter_context(each(spark, table, mode, lake)) for each in recorders]

            def wrote(of: Table, entry: Entry) -> None:
                for each in heard:
                    each(of, entry)

            yield wrote

    return record
