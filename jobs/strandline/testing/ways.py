"""A table and all below it, kept up to date in one of the modes, and ended at a point of a batch as a kill ends its process.

All of it is the engine's: its one loop (jobs/strandline/engine/flow/runner.py), its commits, its checkpoints. In a batch and in a
catch-up the tables run one after the other when they are looked at; a stream has a thread for each, as its host has.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strandline.core.errors import TransientError
from strandline.core.stateful import MicroBatch, Mode
from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Running
from strandline.engine.kafka.send_records import GivenTopics
from strandline.engine.kafka.slices import range_ends
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.runtime import processes

EVERY, LOOK, SELDOM = 0.1, 0.02, 0.1
"""Seconds between two batches of a stream, and between two looks whether it has read all: each trigger lists the logs of its
sources, and each look reads the ledgers, so shorter ones take from the batches what they gain. Only after a commit it is looked at
often."""

SOON = 0.3
"""Seconds after a commit within which Spark notes the batch as done."""

PATIENCE = 300.0
"""Seconds after which a scenario that does not get on is ended."""

POINTS = ("planned", "quarantine_written", "committed")
"""Where a batch can end: planned and nothing written; its quarantine committed and not its table; its table committed, and not
noted by Spark as done."""


class KilledError(Exception):
    """Ends a batch at a point; nothing after it is done, as after a kill."""


@dataclass(slots=True)
class Death:
    """The end of the process that runs the tables, when the next batch of one is at a point."""

    point: str
    table: Table
    lake: Lake
    is_reached: bool = False

    def await_batch(self, mode: str) -> None:
        """Let the next batch that is at the point end there."""
        for place in self._places(mode):
            processes.end_at(*place, self._end)

    def forget(self, mode: str) -> None:
        """Let batches go on."""
        for place in self._places(mode):
            processes.go_on(*place)

    def _places(self, mode: str) -> list[tuple[str, str]]:
        own = self.lake.table(self.table)
        quarantine = [self.lake.quarantine(self.table)] if isinstance(self.table, Judged) else []
        if self.point == "quarantine_written":
            return [(processes.COMMITTED, str(place)) for place in quarantine]
        if self.point == "committed":
            return [(processes.COMMITTED, str(own))]
        if mode == "batch" or isinstance(self.table, Recomputed):
            # Nothing is planned ahead there: what is computed is what the sources have.
            return [(processes.BEGUN, str(place)) for place in (*quarantine, own)]
        return [(processes.PLANNED, str(own))]

    def _end(self) -> None:
        self.is_reached = True
        raise KilledError(f"{self.table.id} was stopped at {self.point}")


class Way(Protocol):
    """How tables are kept up to date."""

    def run(self, tables: Sequence[Table], death: Death | None) -> None:
        """Bring tables up to date, each after those that it reads; return early where the process ends at a point."""

    def stop(self) -> None:
        """End what runs, between two batches."""


@dataclass(slots=True)
class Bounded:
    """Each table runs to its end, one after the other."""

    mode: Callable[[], Mode]
    lake: Lake
    site: Site
    given: GivenTopics

    def run(self, tables: Sequence[Table], death: Death | None) -> None:
        """Run them."""
        for table in tables:
            try:
                run(table, self.mode(), self.lake, site=self.site)
            except Exception:
                if death is None or not death.is_reached:
                    raise
                return

    def stop(self) -> None:
        """Do nothing: nothing runs between two calls."""


@dataclass(slots=True)
class Live:
    """Each table is always on, in a thread of its own."""

    lake: Lake
    site: Site
    given: GivenTopics
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _running: dict[str, Running] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _errors: list[Exception] = field(default_factory=list)
    _moved: threading.Event = field(default_factory=threading.Event)
    _moved_at: float = 0.0

    def run(self, tables: Sequence[Table], death: Death | None) -> None:
        """Start those that do not run, and wait until all have read what there is.

        Raises:
            Exception: What ended one of them.
            TransientError: They do not get on.
        """
        deadline = time.monotonic() + PATIENCE
        while not self._is_over(death):
            for table in tables:
                if table.id not in self._threads and all(map(self.lake.exists, table.upstream)):
                    self._start(table)
            # What is above one that reads is not asked: it will have something to read.
            reading = next((table for table in tables if not self._is_up_to_date(table)), None)
            if reading is None:
                return
            if time.monotonic() > deadline:
                self.stop()
                raise TransientError(
                    f"{reading.id} has not read its rows within {PATIENCE:.0f} seconds",
                    hint="the log of Spark is beside the lake, in the folder of the session's temporary files.",
                    table=reading.id,
                )
            self._rest(is_starting=len(self._threads) < len(tables))
        error = self._errors[0] if self._errors else None
        self.stop()
        if error is not None and (death is None or not death.is_reached):
            raise error

    def stop(self) -> None:
        """Stop them between two batches, and wait for their ends."""
        self._stop.set()
        for thread in self._threads.values():
            thread.join(PATIENCE)
        self._threads, self._stop = {}, threading.Event()
        self._running.clear()
        self._errors.clear()

    def _rest(self, *, is_starting: bool) -> None:
        """Wait for a while, or until a table has committed or ended."""
        is_soon = is_starting or time.monotonic() - self._moved_at < SOON
        if self._moved.wait(LOOK if is_soon else SELDOM):
            self._moved.clear()
            self._moved_at = time.monotonic()

    def _is_over(self, death: Death | None) -> bool:
        return bool(self._errors) or (death is not None and death.is_reached)

    def _is_up_to_date(self, table: Table) -> bool:
        """Return whether a table has read all."""
        if table.id not in self._threads:
            return False
        # Until its query is there, or its first look at what it reads, it may still be refused.
        if self._running[table.id].group is None or not self.lake.exists(table):
            return False
        if isinstance(table, Ingested):
            newest = last_entry(self.lake.table(table))
            read = range_ends(newest[1].offsets) if newest else {}
            ends = self.given.of(table.topics).bounds()
            return all(read.get(part, 0) >= end for part, (_, end) in ends.items())
        return waiting(table, self.lake) == 0 and is_settled(table, self.lake)

    def _start(self, table: Table) -> None:
        thread = threading.Thread(
            target=self._keep, args=(table, self._stop), name=table.id, daemon=True
        )
        self._threads[table.id], self._running[table.id] = thread, Running()
        thread.start()

    def _keep(self, table: Table, stop: threading.Event) -> None:
        try:
            run(
                table,
                MicroBatch(every=EVERY),
                self.lake,
                site=self.site,
                on_commit=lambda _: self._moved.set(),
                stopped=stop.is_set,
                waits=self._waits,
                running=self._running[table.id],
            )
        except Exception as error:  # noqa: BLE001  # raised where the scenario looks
            self._errors.append(error)
            self._moved.set()

    def _waits(self, error: Exception | None) -> None:
        """Note that a gate is shut; a stream waits there for a person, and a test has none."""
        if isinstance(error, GateShutError):
            self._errors.append(error)
            self._moved.set()
