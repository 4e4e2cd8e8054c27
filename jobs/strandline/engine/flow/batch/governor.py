"""How much a batch reads: the size that is chosen for each table and kept for the next start, and whole commits of its sources up to it.

The size is that of ``after_batch``, below. Before a large batch a mark is written with its rows, and removed
after it: a start that finds the mark of an unfinished batch knows that a process ended in it, and tries a smaller one.
Why every end of a process counts for that, and not only one for memory: a batch that is smaller for a minute costs less
than one that dies again.

A table is refused only where memory ended processes, because a person and Kubernetes kill with the same signal as the
kernel does. The mark has how many processes the kernel had killed for want of memory by then, and the next start
compares; and a process that outlives its JVM notes what the JVM said. Where neither is known, nothing is refused.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Judged, Streamed, Table
from strandline.engine.accounting.gate_files import Where, read
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import is_commit
from strandline.engine.lake.log.ledger import Entry, is_passed_over, last_entry
from strandline.engine.lake.log.log_actions import added, table_id
from strandline.engine.lake.mend_checkpoint import withdraw
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    NOWHERE,
    WHOLE,
    Planned,
    Positions,
    begins_whole,
    is_new,
    read_until,
    stream_id,
)
from strandline.engine.runtime.jvm import Heap, loss, ran_out
from strandline.engine.runtime.processes import has_killed_since, killed_for_memory, own

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
        short: How many of them are known to have ended for want of memory.
        measured: Whether a batch was measured, also one of which nothing but its slowness was learnt.
        why: The reason, for people.
    """

    rows: int = FIRST
    most: int | None = None
    best_rows: int = 0
    best: float = 0.0
    deaths: int = 0
    short: int = 0
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
    size = replace(size, deaths=0, short=0)
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


def after_death(size: Size, rows: int, *, short: bool = False) -> Size:
    """Return the size after a process ended within a batch of so many rows.

    Args:
        size: The size before.
        rows: The rows of the batch.
        short: Whether it is known that it ended for want of memory.

    >>> after_death(Size(rows=400_000), 380_000).rows
    190000
    """
    most = _bounded(max(rows, LEAST) // 2, size.most)
    why = f"a process ended within a batch of {rows:,} rows"
    # What was best is forgotten.
    return Size(
        rows=min(most, size.rows),
        most=most,
        deaths=size.deaths + 1,
        short=size.short + short,
        why=f"{why}, for want of memory" if short else why,
    )


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
                short = _ended_short(self._begun)
                self.size = after_death(self.size, self._begun["rows"], short=short)
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
            killed = {"killed": killed_for_memory()}
            self._begun = {"batch": batch, "rows": rows, "failed": False, **killed, **own()}
            self._keep()

    def failed(self, error: Exception) -> None:
        """Record that a batch failed, unless the JVM did: then the next process takes it for dead, which it is.

        The first call that the end of a JVM cuts short may fail with any error.
        """
        if not self._begun:
            return
        if loss(error) is None and not (self._heap and self._heap.is_gone()):
            self._begun["failed"] = True
        elif ran_out(error) or (self._heap and self._heap.ran_out()) or _ended_short(self._begun):
            self._begun["short"] = True
        else:
            return
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


def _ended_short(begun: Mapping[str, Any]) -> bool:
    """Return whether it is known that memory was short when a process ended within a batch; a mark of before says nothing."""
    return bool(begun.get("short")) or has_killed_since(begun.get("killed"))


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


# How much a streaming query reads at a trigger: whole commits of its sources, about as many rows as are wanted.
#
# Spark takes a limit when a query starts, in files, and plans a batch by itself. So every planned batch is looked at
# before it runs (jobs/strandline/engine/flow/batch/batch_writer.py). One that is much too large, or would end between the files
# of a commit, is withdrawn, and the query is started again with another limit, which takes a few hundred milliseconds
# of a batch of ten seconds. A stream that has caught up has no limit, and is never started again for one.


# The next commits of a table that a stream has not read: whole commits, up to a number of rows.
#
# A batch must end between two commits. The files of one commit cover the same time, each for some partitions or keys, so
# a batch that ends among them would move the watermark past rows of the files that it leaves. Delta's own limits count
# files and bytes and end anywhere, so the limit is set to the number of files that whole commits have.


MOST_COMMITS = 1_000
"""A batch reads no more commits, however few rows they have; each is a file to open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Whole commits that come next.

    Args:
        commits: How many of them have rows.
        files: Their files.
        rows: Their rows.
        is_all: Whether nothing is left after them.
    """

    commits: int
    files: int
    rows: int
    is_all: bool


def next_commits(path: Place, version: int, rows: int) -> Next:
    """Return the commits from a version on that have about so many rows together, at least one of them.

    Args:
        path: The table.
        version: The first that is not read.
        rows: The most rows that they should have.
    """
    commits = files = total = 0
    while is_commit(path, version):
        if not is_passed_over(path, version):
            part = added(path, version)
            is_too_much = total + part.rows > rows or commits >= MOST_COMMITS
            if commits and part.files and is_too_much:
                return Next(commits=commits, files=files, rows=total, is_all=False)
            if part.files:
                commits, files, total = commits + 1, files + len(part.files), total + part.rows
        version += 1
    return Next(commits=commits, files=files, rows=total, is_all=True)


def bytes_a_row(path: Place, version: int) -> int:
    """Return how many bytes of file a row has in the next commit that a stream reads; 0 where there is none."""
    while is_commit(path, version):
        if not is_passed_over(path, version) and (part := added(path, version)).rows:
            return part.bytes // part.rows
        version += 1
    return 0


EVERYTHING = 2**31 - 1

OVER = 1.5
"""A batch of up to this many times the size runs as it was planned."""


SURE = 2
"""This many processes that memory ended within a batch are no accident."""


class ReplanError(Exception):
    """A batch was withdrawn before it ran; the query is started again with another limit."""


class TriggerLimit:
    """The limits of one table's query."""

    def __init__(self, table: Streamed, lake: Lake, governor: Governor) -> None:
        """Prepare; the query is not started yet."""
        self._table = table
        self._lake = lake
        self._governor = governor
        self._checkpoint = lake.checkpoint(table)
        self._is_limited = False
        self._is_large = False

    def begin_large(self) -> None:
        """Begin a backlog with what memory bears: of tables that a run computes at a time one has a backlog.

        How much a row of a judged table needs was measured; a table above it may keep rows in Python.
        """
        self._is_large = isinstance(self._table, Judged)

    def is_read_out(self) -> bool:
        """Return whether the sources have nothing that a query would read, from their logs alone."""
        following = self._following(read_until(self._checkpoint))
        return not any(each.files for each in following.values())

    def files(self) -> dict[str, int]:
        """Return for each source the most files at a trigger; all of them where no more is left than the size."""
        if is_new(self._checkpoint) and begins_whole(self._checkpoint):
            return dict.fromkeys((source.id for source in self._table.upstream), EVERYTHING)
        following = self._following(read_until(self._checkpoint))
        if (
            self._is_large
            and self._governor.is_new
            and not all(e.is_all for e in following.values())
        ):
            self._governor.begin(self._bytes_a_row())
            following = self._following(read_until(self._checkpoint))
        self._is_limited = not all(each.is_all for each in following.values())
        return {name: EVERYTHING if each.is_all else each.files for name, each in following.items()}

    def refuse(self, plan: Planned, rows: int) -> None:
        """Withdraw a batch that should be planned again, before anything of it has run.

        Args:
            plan: The batch.
            rows: Its rows.

        Raises:
            ReplanError: It was withdrawn.
            DefinitionError: It cannot be made smaller, and memory has ended processes within it.
        """
        if not rows or plan.whole:
            return
        is_well = _is_whole(plan) and not self._is_too_large(plan, rows)
        if is_well and not self._is_too_small(plan, rows):
            return
        if self._is_begun(plan.number):
            return
        withdraw(self._checkpoint, plan.number)
        raise ReplanError(f"batch {plan.number} of {self._table.id} with {rows:,} rows")

    def _is_too_large(self, plan: Planned, rows: int) -> bool:
        """Return whether a batch is much larger than the size, and another limit would make it smaller.

        Raises:
            DefinitionError: No limit would, and memory has ended processes within it.
        """
        if rows <= self._governor.rows * OVER:
            return False
        if rows > self._rows_after(plan.start):
            return True
        self._refuse_deadly(rows)
        return False

    def _is_too_small(self, plan: Planned, rows: int) -> bool:
        """Return whether far more could be read: the limit is that of a smaller size, or of commits with more rows."""
        if not self._is_limited or rows >= self._governor.rows * FULL:
            return False
        return self._rows_after(plan.start) * FULL > rows

    def _refuse_deadly(self, rows: int) -> None:
        """Refuse a commit that is too large for the heap: a batch cannot end within it."""
        if self._governor.size.short >= SURE:
            sources = " and ".join(source.id for source in self._table.upstream)
            raise DefinitionError(
                f"one commit of {sources} has {rows:,} rows, and {self._governor.size.short} processes have ended for "
                f"want of memory while {self._table.id} read it",
                hint="a batch ends between two commits, so this one needs memory once: `STRANDLINE_MEMORY=4g strandline "
                f"run {self._table.id}`, or as much as the machine has; later commits are bounded.",
                table=self._table.id,
                rows=rows,
            )

    def begins(self, number: int, rows: int) -> None:
        """Mark a batch that is about to run."""
        self._governor.begins(number, rows)

    def failed(self, error: Exception) -> None:
        """Record that a batch failed."""
        self._governor.failed(error)

    def ended(self, entry: Entry) -> None:
        """Measure a batch that was committed."""
        self._governor.ended(entry)

    def chosen(self) -> int:
        """Return the most rows that the next batch should have."""
        return self._governor.rows

    def _rows_after(self, start: Positions) -> int:
        """Return the rows of the batch that a new limit would give."""
        return sum(each.rows for each in self._following(start).values())

    def _following(self, start: Positions) -> dict[str, Next]:
        share = self._governor.rows // len(self._table.upstream)
        return {
            source.id: _next(self._lake, source, start, share) for source in self._table.upstream
        }

    def _bytes_a_row(self) -> int:
        """Return the bytes of file that a row of the widest source has."""
        start = read_until(self._checkpoint)
        paths = map(self._lake.table, self._table.upstream)
        return max(bytes_a_row(each, start.get(table_id(each), NOWHERE).version) for each in paths)

    def _is_begun(self, number: int) -> bool:
        """Return whether a batch must stay as it was planned: its half is committed, its gate names it, or it has run here."""
        if self._governor.is_begun_here(number):
            return True
        stream = stream_id(self._checkpoint)
        gate = read(self._table, self._lake, Where.BEFORE)
        if gate is not None and gate.is_of(str(stream), number):
            return True
        if not isinstance(self._table, Judged):
            return False
        held = last_entry(self._lake.quarantine(self._table))
        return held is not None and held[1].stream == stream and held[1].batch >= number


def _is_whole(plan: Planned) -> bool:
    """Return whether a batch ends between two commits of each source of which it reads something."""
    return all(
        end.files == 0 or end.files >= WHOLE or end == plan.start.get(name)
        for name, end in plan.end.items()
    )


def _next(lake: Lake, source: Table, start: Positions, rows: int) -> Next:
    path = lake.table(source)
    return next_commits(path, start.get(table_id(path), NOWHERE).version, rows)
