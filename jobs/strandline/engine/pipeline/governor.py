"""Chooses the size of each batch of one table, and keeps it in the lake for the next start.

The size is that of jobs/strandline/engine/pipeline/batch_size.py. Before a large batch a mark is written with its rows, and removed
after it: a start that finds the mark of an unfinished batch knows that a process ended in it, and tries a smaller one.
Why every end of a process counts, and not only one for memory: the kernel kills for memory with the same signal as a
person does, and a batch that is smaller for a minute costs less than one that dies again.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from strandline import catalog

from strandline.core.table import Ingested, Table
from strandline.engine.pipeline.batch_size import (
    LARGEST,
    LEAST,
    Measured,
    Size,
    after_batch,
    after_death,
    first,
)
from strandline.engine.runtime.heap import Heap
from strandline.engine.runtime.holders import own
from strandline.engine.runtime.jvm import loss
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.place import Place

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
            rows=entry.read,
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
