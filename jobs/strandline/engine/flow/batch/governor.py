"""Chooses the size of each batch of one table, and keeps it in the lake for the next start.

The size is that of ``after_batch``, below. Before a large batch a mark is written with its rows, and removed
after it: a start that finds the mark of an unfinished batch knows that a process ended in it, and tries a smaller one.
Why every end of a process counts, and not only one for memory: the kernel kills for memory with the same signal as a
person does, and a batch that is smaller for a minute costs less than one that dies again.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from strandline import catalog

from strandline.core.table import Ingested, Table
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime.jvm import Heap, loss
from strandline.engine.runtime.processes import own

# How many rows the next batch reads: a pure function of what the last one measured.
#
# A batch has a fixed cost (planning, state, a commit: 0.3 to 1 s on two cores), so a backlog is read fastest in large
# batches, up to where memory is short. So the size follows the measured rows a second towards a batch of ten seconds, at
# most doubling or halving at a time; it goes back where a larger batch took more CPU a row, and is halved where the heap
# is short. Where less arrives than the size, a batch is what arrived, and nothing is learned from it
# about larger ones.


TARGET = 10.0
"""Seconds that a batch of a backlog should take: the fixed cost is then a tenth of it or less."""

FIRST = 50_000
"""The size before anything was measured; a heap of 512 MB bears it [measured]. A backlog begins with what memory bears: five
batches in place of two cost silver a fifth more CPU [measured: one million events, 1.39 times a job by hand, and 1.14]."""

LEAST = 5_000
"""A batch this small does not die of its size."""

LARGEST = 5_000_000
STEP = 1_000

TIGHT, CLOSE = 0.80, 0.65
"""Shares of the old generation that are in use after a full collection: smaller batches, and no larger ones."""

BUSY, BUSIER = 0.20, 0.35
"""Shares of the time that go to collecting garbage: no larger batches, and smaller ones."""

FULL = 0.5
"""A batch of less than this share of the size shows nothing about a full one."""

DEARER = 0.75
"""A larger batch that reads fewer rows in a second of CPU than this share of the best was too large. CPU and not the time,
because a neighbour on the machine takes time and no CPU."""

FADES = 0.98
"""What is left of the best figure after each batch, because a state gets larger."""

STEADY = 0.25
"""A size within this share of the wanted one is kept: another size restarts the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of the next batch.

    Args:
        rows: The most rows that it should have.
        most: The most that went well, where a larger batch did not.
        best_rows: The rows of the batch that needed the least CPU a row.
        best: Its rows in a second of CPU.
        deaths: How many processes in a row have ended within a batch.
        measured: Whether a batch was measured, also one of which nothing but its slowness was learnt.
        why: The reason, for people.
    """

    rows: int = FIRST
    most: int | None = None
    best_rows: int = 0
    best: float = 0.0
    deaths: int = 0
    measured: bool = False
    why: str = "nothing was measured yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a batch took.

    Args:
        rows: Its rows.
        seconds: Its time.
        cpu: The seconds of CPU that the JVM used meanwhile.
        held: The share of the old generation in use after its last full collection; 0 if there was none.
        collecting: The share of its time that went to collecting garbage.
    """

    rows: int
    seconds: float
    cpu: float = 0.0
    held: float = 0.0
    collecting: float = 0.0

    @property
    def economy(self) -> float:
        """Return the rows in a second of CPU."""
        return self.rows / max(self.cpu, 0.001)


def first(size: Size, bears: int, why: str) -> Size:
    """Return the size of the first batch of a backlog, of which nothing was measured yet.

    >>> first(Size(), 800_000, "memory").rows
    800000
    """
    return replace(size, rows=_bounded(bears, None), why=f"nothing was measured yet; {why}")


def after_batch(size: Size, found: Measured) -> Size:
    """Return the size of the next batch.

    >>> after_batch(Size(rows=50_000), Measured(rows=50_000, seconds=2.0)).rows
    100000
    >>> after_batch(Size(rows=400_000), Measured(rows=400_000, seconds=12.0, held=0.9)).rows
    200000
    """
    if found.rows < LEAST:
        return size
    size = replace(size, deaths=0)
    if found.held > TIGHT or found.collecting > BUSIER:
        most = _bounded(found.rows * 3 // 4, size.most)
        why = f"memory was short with {found.rows:,} rows ({_pressure(found)})"
        rows = _bounded(min(found.rows // 2, size.rows), most)
        return replace(size, rows=rows, most=most, measured=True, why=why)
    pace = found.rows / max(found.seconds, 0.001)
    wanted = min(round(pace * TARGET), _fitting(found))
    if pace * TARGET < size.rows * (1 - STEADY) and found.seconds > TARGET:
        return _slow(size, found, pace)
    if found.rows < size.rows * FULL:
        return size
    if found.rows > size.best_rows * (1 + STEADY) and found.economy < size.best * DEARER:
        return _dearer(size, found)
    return _well(size, found, pace, wanted)


def _slow(size: Size, found: Measured, pace: float) -> Size:
    """Return a smaller size, because a batch took too long."""
    rows = _bounded(max(round(pace * TARGET), size.rows // 2), size.most)
    why = f"{found.rows:,} rows took {found.seconds:.1f} s, {pace:,.0f} rows/s"
    return replace(size, rows=rows, measured=True, why=why)


def _dearer(size: Size, found: Measured) -> Size:
    """Return the size of the best batch, because a larger one needed more CPU a row."""
    rows = _bounded(min(max(size.best_rows, size.rows // 2), size.rows), size.most)
    why = (
        f"{found.rows:,} rows at once needed more CPU ({found.economy:,.0f} rows a second of it) "
        f"than {size.best_rows:,} ({size.best:,.0f})"
    )
    return replace(size, rows=rows, most=rows, best=size.best * FADES, measured=True, why=why)


def _well(size: Size, found: Measured, pace: float, wanted: int) -> Size:
    """Return a larger size or the same after a batch that went well."""
    size = replace(size, best=size.best * FADES, measured=True)
    if found.economy > size.best:
        size = replace(size, best_rows=found.rows, best=found.economy)
    speed = f"{pace:,.0f} rows/s towards {TARGET:.0f} s"
    if found.held > CLOSE or found.collecting > BUSY:
        return replace(size, why=f"{speed}, no larger: {_pressure(found)}")
    most = size.most
    if most is not None:  # what was too large once may not be so for ever
        most += max(most // 32, STEP)
    if wanted <= size.rows * (1 + STEADY):
        return replace(size, most=most, why=speed)
    rows = _bounded(min(wanted, size.rows * 2), most)
    # Steps of a few rows would restart the query for nothing.
    if rows <= size.rows * (1 + STEADY):
        rows = size.rows
    return replace(size, rows=rows, most=most, why=speed)


def after_death(size: Size, rows: int) -> Size:
    """Return the size after a process ended within a batch of so many rows.

    >>> after_death(Size(rows=400_000), 380_000).rows
    190000
    """
    most = _bounded(max(rows, LEAST) // 2, size.most)
    why = f"a process ended within a batch of {rows:,} rows"
    # What was best is forgotten.
    return Size(rows=min(most, size.rows), most=most, deaths=size.deaths + 1, why=why)


def _fitting(found: Measured) -> int:
    """Return the rows with which the heap would be short, if all that is in use grew with them."""
    return round(found.rows * TIGHT / found.held) if found.held else LARGEST


def _bounded(rows: int, most: int | None) -> int:
    rows = min(rows, LARGEST, LARGEST if most is None else most)
    return max(rows // STEP * STEP, LEAST)


def _pressure(found: Measured) -> str:
    return f"{found.held:.0%} of the heap in use, {found.collecting:.0%} of the time collecting"


ROW = 2_500
"""Bytes of heap for each row of a commit of bronze: with 512 MB 200,000 rows, a quarter of what silver then bears at
once [measured], so that a batch of silver can be made of several commits."""

ROW_OF_SILVER = 1_250
"""Bytes of heap for each row of a first batch of silver: half of what it bears at once [measured, as above]."""

SWELLS = 16
"""Bytes of heap for each byte of the files that a first batch reads: wide rows are fewer at once than that says."""


class Governor:
    """The sizes of a table's batches."""

    def __init__(
        self, table: Table, lake: Lake, heap: Heap | None = None, *, fixed: int | None = None
    ) -> None:
        """Begin where the last process stopped.

        Args:
            table: The table.
            lake: Its lake.
            heap: The heap of the JVM; without it only time decides.
            fixed: A size that is kept whatever is measured; only a death makes it smaller.
        """
        self._table = table
        self._lake = lake
        self._file = lake.batch_size(table)
        self._heap = heap
        self._fixed = fixed
        self._due = time.monotonic()
        self._above: list[int | None] = []
        known = _kept(self._file)
        self._begun = known.get("begun")
        self.size = _size(known, heap)
        if self._begun and not self.is_begun_here(self._begun["batch"]):
            if not self._begun["failed"]:
                self.size = after_death(self.size, self._begun["rows"])
            self._begun = None
            self._keep()

    @property
    def rows(self) -> int:
        """Return the most rows that the next batch should have."""
        if self._fixed is None:
            return min([self.size.rows, *self._bearable()])
        return min(self._fixed, self.size.most or self._fixed)

    @property
    def is_new(self) -> bool:
        """Return whether nothing was measured of the table, and no process has ended within a batch of it."""
        size = self.size
        known = size.measured or size.best_rows or size.most is not None or size.deaths
        return self._fixed is None and not known

    def begin(self, width: int) -> None:
        """Choose the first size from memory: doubling up to it would make a catch-up of a million rows five batches.

        Args:
            width: The bytes of file that a row has.
        """
        heap = self._heap.bytes if self._heap else 0
        bears = heap // max(ROW_OF_SILVER, SWELLS * width)
        self.size = first(self.size, bears, f"a heap of {heap >> 20:,} MB bears it")

    @property
    def why(self) -> str:
        """Return why the next batch has this size."""
        return self.size.why if self._fixed is None else "fixed by --max-offsets"

    def is_begun_here(self, batch: int) -> bool:
        """Return whether this process began a batch and has not ended it: its tasks may still hold versions of its state."""
        begun = self._begun or {}
        mine = own()
        return begun.get("batch") == batch and all(begun.get(name) == mine[name] for name in mine)

    def begins(self, batch: int, rows: int) -> None:
        """Mark a batch that is about to run."""
        if self._heap:
            self._heap.begin()
        if rows > LEAST:
            self._begun = {"batch": batch, "rows": rows, "failed": False, **own()}
            self._keep()

    def failed(self, error: Exception) -> None:
        """Record that a batch failed, unless the JVM did: then the next process takes it for dead, which it is.

        The first call that the end of a JVM cuts short may fail with any error.
        """
        if not self._begun or loss(error) is not None or (self._heap and self._heap.is_gone()):
            return
        self._begun["failed"] = True
        self._keep()

    def ended(self, entry: Entry) -> None:
        """Measure a batch that was committed, and choose the next size."""
        found = Measured(
            rows=entry.read + entry.others,
            seconds=entry.duration_ms / 1000,
            cpu=entry.cpu_ms / 1000,
            held=self._heap.held() if self._heap else 0.0,
            collecting=self._heap.collecting() if self._heap else 0.0,
        )
        before, self.size = self.size, after_batch(self.size, found)
        if self._begun or self.size != before:
            self._begun = None
            self._keep()

    def _bearable(self) -> Iterator[int]:
        """Yield what the tables above can bear: a commit is the least that they can read at once."""
        if isinstance(self._table, Ingested) and self._heap:
            yield max(self._heap.bytes // ROW, LEAST)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._lake.pause(0.0)
            readers = (each for each in catalog.tables() if self._table in each.upstream)
            self._above = [_kept(self._lake.batch_size(each)).get("most") for each in readers]
        yield from (LARGEST if most is None else most for most in self._above)

    def _keep(self) -> None:
        heap = self._heap.bytes if self._heap else 0
        self._file.put(json.dumps({**asdict(self.size), "heap": heap, "begun": self._begun}))


def chosen_size(table: Table, lake: Lake) -> dict[str, object] | None:
    """Return the rows of a table's next batch and why, as they are kept; None before the first large batch."""
    known = _kept(lake.batch_size(table))
    return {name: known[name] for name in ("rows", "why")} if known.get("rows") else None


def _kept(file: Place) -> dict[str, Any]:
    """Return what a file holds; nothing where there is none, or where a crash has torn it."""
    try:
        found = json.loads(file.text() or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _size(known: dict[str, Any], heap: Heap | None) -> Size:
    """Return the size that was kept; what another heap bore says nothing about this one."""
    values = {each.name: known[each.name] for each in fields(Size) if each.name in known}
    if heap is None or known.get("heap") in {0, None, heap.bytes}:
        return Size(**values)
    return Size(why="the memory of Spark was changed")
