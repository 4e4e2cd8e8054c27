"""Whether the batches come back that a stream waits for, once it is asked to end.

One that moves has a minute: its jobs, its tasks or its rows go on, or Spark's driver works for it, which plans and commits. One that
does not has seconds: a function of a table that waits for something outside never comes back, and a JVM that does not
answer brings no batch back at all. They are killed with the JVM, and the next start does the same batches again.

The looks are those of a thread, because a call of a JVM that does not answer never returns; while one does not, no batch moves.
"""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType

from pyspark.sql import SparkSession

from strandline.engine.flow.running import Running
from strandline.engine.runtime.jvm import moves
from strandline.engine.runtime.meter import Work
from strandline.engine.runtime.missing import SparkGoneError

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
