"""Always on: all tables of a lake in one process and one Spark, each in a thread, each with its lease.

Why threads that poll and not ``awaitTermination``: a thread that waits inside py4j hears no signal, and what
interrupts it leaves the gateway out of step.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial

from jobs.core.errors import LakeError
from jobs.core.modes import Mode
from jobs.core.table import Layer, Speaks, Table
from jobs.run.absence import without_room
from jobs.run.gates import GateShutError
from jobs.run.gauge import Gauge
from jobs.run.holders import own
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.notes import put
from jobs.run.runner import Site, run
from jobs.run.tail import Tail

POLL = 0.1
RATE_OVER = 10.0


@dataclass(slots=True, kw_only=True)
class Pulse:
    """How one table is doing."""

    table: str
    batches: int = 0
    read: int = 0
    lag: int | None = None
    rate: float = 0.0
    watermark: str | None = None
    last_ms: int = 0
    state: int = 0
    """Rows that Spark remembers between batches."""
    gate: str | None = None
    """Why the table waits behind a shut gate."""
    away: str | None = None
    """What is away that the table waits for."""
    behind: str | None = None
    """Since when it has rows to read, waits for nothing, and has committed none of them."""
    at: str | None = None
    recent: list[tuple[float, int]] = field(default_factory=list)


class Host:
    """Runs tables side by side until it is told to stop or one of them fails."""

    def __init__(
        self, tables: Sequence[Table], mode: Mode, lake: Lake, site: Site, stop: threading.Event
    ) -> None:
        """Prepare; nothing runs yet.

        Once ``stop`` is set, every table ends its batch and then stops.
        """
        self._tables = tables
        self._mode = mode
        self._lake = lake
        self._site = site
        self._stop = stop
        self._failed: BaseException | None = None
        self.pulses = {table.id: Pulse(table=table.id) for table in tables}
        folders = {t.id: lake.table(t) for table in tables for t in (table, *table.upstream)}
        bronze = [table for table in tables if table.layer is Layer.BRONZE]
        self._gauge = Gauge(
            bronze,
            lake,
            address=lambda: site.address or site.locate(),
            options=site.options,
            stop=stop,
        )
        self._tails = {name: Tail(path) for name, path in folders.items()}

    def serve(self, look: Callable[["Host"], None]) -> None:
        """Run until stopped; ``look`` is called about once a second.

        Raises:
            Exception: What made a table fail; the others are stopped first.
        """
        threads = [
            threading.Thread(target=self._keep, args=(table,), name=table.id, daemon=True)
            for table in self._tables
        ]
        for thread in threads:
            thread.start()
        self._gauge.start()
        due = 0.0
        try:
            while any(thread.is_alive() for thread in threads):
                if time.monotonic() >= due:
                    with without_room():
                        self._measure()
                        look(self)
                    due = time.monotonic() + 1.0
                time.sleep(POLL)
        finally:
            with without_room():
                self._beat(is_alive=False)
        if self._failed is not None:
            raise self._failed

    def _keep(self, table: Table) -> None:
        try:
            while not all(self._lake.exists(source) for source in table.upstream):
                if self._stop.wait(POLL):
                    return
            run(
                table,
                self._mode,
                self._lake,
                site=self._site,
                tell=lambda entry: self._heard(table, entry),
                stopped=self._stop.is_set,
                waits=partial(self._waits, table),
                holds=partial(self._holds, table),
            )
        except BaseException as error:  # noqa: BLE001  # raised again in serve, once the others have stopped
            self._failed = self._failed or error
            self._stop.set()

    def _waits(self, table: Table, error: LakeError | None) -> None:
        pulse = self.pulses[table.id]
        is_gate = isinstance(error, GateShutError)
        pulse.gate = error.message if error and is_gate else None
        pulse.away = error.message if error and not is_gate else None

    def _holds(self, table: Table, rows: int) -> None:
        self.pulses[table.id].state = rows

    def _heard(self, table: Table, entry: Entry) -> None:
        pulse = self.pulses[table.id]
        pulse.batches += 1
        pulse.read += entry.read
        pulse.watermark = entry.watermark
        pulse.last_ms = entry.duration_ms
        pulse.at = self._site.clock().isoformat(timespec="seconds")
        pulse.behind = None
        pulse.recent.append((time.monotonic(), entry.read))

    def _measure(self) -> None:
        now = time.monotonic()
        for tail in self._tails.values():
            tail.follow()
        for table in self._tables:
            pulse = self.pulses[table.id]
            pulse.recent = [(at, rows) for at, rows in pulse.recent if now - at < RATE_OVER]
            pulse.rate = sum(rows for _, rows in pulse.recent) / RATE_OVER
            pulse.lag = self._lag(table)
            if not pulse.lag or pulse.gate or pulse.away:
                pulse.behind = None
            else:
                pulse.behind = pulse.behind or self._site.clock().isoformat(timespec="seconds")
        self._beat(is_alive=True)

    def _lag(self, table: Table) -> int | None:
        if table.layer is Layer.BRONZE:
            return self._gauge.lags[table.id]
        if not self._lake.exists(table):
            return None
        tails = [self._tails[source.id] for source in table.upstream]
        is_afresh = table.speaks is Speaks.AFRESH
        there = sum(tail.written if is_afresh else tail.appended for tail in tails)
        return there - self._tails[table.id].read

    def _beat(self, *, is_alive: bool) -> None:
        at: datetime = self._site.clock()
        tables = {
            name: {k: v for k, v in asdict(pulse).items() if k != "recent"}
            for name, pulse in self.pulses.items()
        }
        failed = self._failed
        beat = {
            **own(),
            "alive": is_alive,
            "at": at.isoformat(timespec="seconds"),
            "tables": tables,
            "failed": failed.kind if isinstance(failed, LakeError) else None,
        }
        put(self._lake.heartbeat, json.dumps(beat, indent=1))
