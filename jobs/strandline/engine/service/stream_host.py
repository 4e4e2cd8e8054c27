"""Host the always-on stream: all tables of a lake in one process and one Spark, each in a thread, each with its lease.

A table that fails is retried while the others run (jobs/strandline/engine/service/stream_health.py). The process ends by an error that
no table survives, such as the end of the JVM, or when no table can run; then the watchdog or the operator decides.

Why threads that poll and not ``awaitTermination``: a thread that waits inside py4j receives no signal, and an
interrupt leaves the gateway out of step.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.stateful import Mode
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.accounting.table_books import Closed, close
from strandline.engine.flow.batch.governor import chosen_size
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import LOOK, LastBatches, Running
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.kafka.broker import bound_log
from strandline.engine.lake.completeness import RetiredError, fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import REQUESTS, HasWriterError, asker, is_held
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, between, latest_version
from strandline.engine.lake.open_table import broken_files
from strandline.engine.lake.place import damage
from strandline.engine.runtime.jvm import deaf, exit_code, gone, has_ended, is_deaf, loss
from strandline.engine.runtime.outage import skipped_in_outage
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.spark_session import refuse_too_many
from strandline.engine.service.backlog import BackPressure, BookCloser, Gauge, OpenBooks, Trend
from strandline.engine.service.edited_code import (
    Loaded,
    LoadedCode,
    Request,
    answer,
    refused,
    requested,
)
from strandline.engine.service.sleeping import AFTER, Sleepers
from strandline.engine.service.stream_health import (
    HANDED_OVER,
    TURN,
    Failing,
    Shard,
    failing,
    write_beat,
)

POLL = 0.1
RATE_OVER = 10.0
LOOK_AT_FILES = 5
"""Rounds of a minute from one look at the tables' files to the next."""
POLL_EACH = 0.002
"""Seconds between two looks at a table, for each table: 205 threads that look twenty times a second take a core."""
AT_ONCE = 24
"""Tables that start at the same time: with 68 of them on two busy cores none had committed a batch after ten minutes."""
STARTING = 600.0
"""Seconds after which a table that starts no longer keeps others from it."""
HANDED = 0.5
"""Seconds between two looks whether a process asks for a table."""
LOOK_SHARE = 30.0
"""Times what a look at all tables took that pass before the next one: a look at 300 tables takes as long as the work of some."""
LOOK_LONGEST = 5.0
"""Seconds: a heartbeat is not late for that."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """The figures of one table in the heartbeat."""

    table: str
    batch: int | None = None
    """The number of its last batch."""
    batches: int = 0
    read: int = 0
    lag: int | None = None
    rate: float = 0.0
    watermark: str | None = None
    last_ms: int = 0
    state: int = 0
    """Rows in Spark's state."""
    gate: str | None = None
    """Why the table waits behind a shut gate."""
    away: str | None = None
    """The outage that the table waits for."""
    sources: str | None = None
    """The tables that it waits for, because they were never made."""
    failing: Failing | None = None
    """Its failure, while it is retried."""
    broken: str | None = None
    """Its files that are gone, or that were cut."""
    behind: str | None = None
    """The time since which it has had rows to read and committed none, though it waits for nothing."""
    at: str | None = None
    asleep: bool = False
    """Whether it has no query, because it has had nothing to read for a while."""
    gives_way: bool = False
    """Whether its next batch, which would be of few rows, gives way to tables that are behind."""
    running: str | None = None
    """The batch that it is at."""
    unmoved: int | None = None
    """The seconds for which that has not moved."""
    behind_rows: int | None = None
    """The rows that it and its sources have not read."""
    falls: float | None = None
    """By how many of them a second they become fewer; None while that is not known."""
    size: dict[str, object] | None = None
    """The most rows of its next batch, and why it is that."""
    recent: list[tuple[float, int]] = field(default_factory=list)


class Host:
    """Runs tables side by side until it is stopped or no table can run."""

    def __init__(  # noqa: PLR0913, PLR0917  # what runs where, and by which code
        self,
        tables: Sequence[Table],
        mode: Mode,
        lake: Lake,
        site: Site,
        stop: threading.Event,
        code: LoadedCode | None = None,
        *,
        feeds_all: bool = False,
        sleep: float = AFTER,
        shard: Shard | None = None,
        holds_back: Callable[[Table], bool] = lambda _: False,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            tables: The tables.
            mode: How they run.
            lake: Where.
            site: With what.
            stop: Once it is set, every table ends its batch and then stops.
            code: The modules of the tables, which are loaded anew on request; None where they stay as they are.
            feeds_all: Whether tables that come with edited code are fed as well.
            sleep: Seconds after which a table that has nothing to read sleeps; 0 never.
            shard: The share of the tables that these are, where other hosts have the rest.
            holds_back: Asked whether a table's next batch waits for a moment (jobs/strandline/engine/service/moment_maker.py).
        """
        self._tables, self._holds_back = tables, holds_back
        self._known = {table.id: table for table in tables}
        """Each table as it is to run; one whose query has another object ends its batch, and goes on with this one."""
        self._code = code
        self._feeds_all = feeds_all
        self._shard = shard
        self._declared: Sequence[Table] = tables
        """What the modules declared when they were read last."""
        self._threads: dict[str, threading.Thread] = {}
        self._fed = {table.id for table in tables}
        """The tables with a thread that feeds them."""
        last = None if code is None else requested(lake)
        self._answered = last.mark if last else ""
        self._mode = mode
        self._lake = lake
        self._poll = max(POLL, POLL_EACH * len(tables))
        self._site = replace(site, poll=max(site.poll, POLL_EACH * len(tables)))
        self._stop = stop
        self._ended_by: BaseException | None = None
        self.errors: dict[str, Exception] = {}
        """The last error of each failing table."""
        self._waiting_for_sources: set[str] = set()
        """The tables that wait for a source to be made."""
        self.pulses = {table.id: Pulse(table=table.id) for table in tables}
        self._sleepers = Sleepers(lake, sleep)
        bronze = [table for table in tables if isinstance(table, Ingested)]
        self._gauge = Gauge(
            bronze,
            lake,
            address=lambda: site.address or site.locate(),
            options=site.options,
            stop=stop,
            asleep=self._sleepers.asleep,
        )
        self._retired: set[str] = set()
        """The tables that were retired since the start, and are still in the figures."""
        self._handed: set[str] = set()
        """The tables that were handed over: where another process takes one before it is taken back, it is tried again."""
        self._looked_at: dict[str, tuple[float, str | None]] = {}
        """For each table when to look again who asks for it, and who did."""
        self._trends = {table.id: Trend() for table in tables}
        self._books = OpenBooks(tables, lake)
        self.closer = BookCloser(self._keep_house)
        self._rounds = 0
        self._files_seen_at: dict[str, int] = {}
        """The version up to which each table's commits are known to bring no file back."""
        self._running = {table.id: Running() for table in tables}
        every = getattr(mode, "every", 0.0)
        self._pressure = BackPressure(tables, every)
        self._starting: dict[str, float] = {}
        """When each table that starts, and whose first trigger has not ended, began to."""
        self._turn = threading.Lock()
        self.hung: list[str] = []
        """The tables whose batch did not end when the stream was asked to."""
        self._last: LastBatches | None = None
        """Looks at the batches that are waited for, once the stream is asked to end."""

    @property
    def spark(self) -> SparkSession:
        """Return the session in which the tables run."""
        return self._site.spark

    @property
    def waited_at(self) -> float:
        """Return until when there was a batch to wait for, once the stream is asked to end; long ago before that."""
        return 0.0 if self._last is None else self._last.waited_at

    def serve(self, look: Callable[["Host"], None]) -> None:
        """Run until stopped; ``look`` is called about once a second, on a store more rarely.

        Raises:
            Exception: The error that ended all tables, or that of a table which still fails when the host is stopped.
        """
        for table in self._tables:
            self._begin(table.id)
        self._gauge.start()
        self.closer.start()
        due = 0.0
        try:
            while left := [name for name, thread in self._threads.items() if thread.is_alive()]:
                if (begun := time.monotonic()) >= due:
                    with skipped_in_outage():
                        self._load_code()
                        self._measure()
                        bound_log(self._lake)
                        look(self)
                    took = time.monotonic() - begun
                    due = begun + max(self._lake.pause(LOOK), min(LOOK_SHARE * took, LOOK_LONGEST))
                self._end_without_any()
                if is_deaf(self._site.spark):
                    self._hangs(left, deaf())
                    break  # no batch ends any more, so there is nothing to wait for
                if self._stop.is_set():
                    self._sleepers.wake_all()
                    if (over := self._waits_no_longer()) is not None:
                        self._hangs(left, over)
                        break
                time.sleep(POLL)
        finally:
            if self._last is not None:
                self._last.end()
            self.closer.end()
            with skipped_in_outage():
                self._beat(is_alive=False)
        for error in (self._ended_by, *self.errors.values()):
            if error is not None:
                raise error

    def _hangs(self, tables: list[str], error: TransientError) -> None:
        self.hung = tables
        self._end(error)

    def _begin(self, name: str) -> None:
        """Start the thread of a table."""
        thread = threading.Thread(target=self._keep, args=(name,), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def _load_code(self) -> None:
        """Load the code of the tables anew where that was asked for."""
        asked = None if self._code is None else requested(self._lake)
        if self._code is None or asked is None or asked.mark == self._answered:
            return
        try:
            if asked.loads:
                self._declared = self._code.load()
            found = self._take_over(self._declared, asked)
        except Exception as error:  # noqa: BLE001  # whatever an edited module raises ends no stream
            found = refused(asked.mark, error)
        answer(self._lake, found)
        self._answered = asked.mark

    def _take_over(self, declared: Sequence[Table], asked: Request) -> Loaded:
        """Let each table go on as it is declared now, but those that are held; start those that are new.

        Raises:
            DefinitionError: There would be too many of them.
        """
        now = {table.id: table for table in fed(declared, self._lake)}
        with self._turn:
            fewer = self._known.keys() - now.keys()
            free = {name: table for name, table in now.items() if name not in asked.hold}
            changed = [n for n, t in free.items() if self._known.get(n, t) is not t]
            added = [n for n in free if self._feeds_all and n not in self._known]
            refuse_too_many(len(self._known) - len(fewer) + len(added))
            for name in fewer:  # its thread ends its batch, and takes it out of the figures
                del self._known[name]
            self._known |= {name: free[name] for name in (*changed, *added)}
            self._handed |= {*changed, *added}
            begins = [name for name in added if name not in self._fed]
            self._fed |= {*begins}
            self._retired -= {*added}
        for name in begins:
            self.pulses[name] = Pulse(table=name)
            self._trends[name], self._running[name] = Trend(), Running()
        self._go_on_with([*now.values()])
        for name in begins:
            self._begin(name)
        gone = fewer - {table.id for table in declared}
        return Loaded(
            mark=asked.mark, changed=tuple(changed), added=tuple(added), gone=tuple(sorted(gone))
        )

    def _go_on_with(self, now: Sequence[Table]) -> None:
        """Measure the tables that are fed, in the order in which data flows, and those that are about to end."""
        ordered = [self._known[table.id] for table in now if table.id in self._known]
        ending = [
            each for each in self._tables if each.id in self.pulses and each.id not in self._known
        ]
        self._tables = [*ordered, *ending]
        self._pressure.take(self._tables)
        self._books.take(self._tables)
        self._gauge.take([table for table in self._tables if isinstance(table, Ingested)])

    def _waits_no_longer(self) -> TransientError | None:
        """Return why the stream waits for its last batches no longer; None while it does."""
        if self._last is None:
            fed = {name: each for name, each in self._threads.items() if name in self._running}
            self._last = LastBatches(self._site.spark, dict(self._running), fed)
            self._last.start()
        return self._last.refusal()

    def _keep(self, name: str) -> None:
        try:
            while not self._stop.is_set() and (table := self._goes_on(name)) is not None:
                try:
                    self._await_sources(table)
                    self._await_return(table)
                    self._await_turn(table)
                    if self._leaves(table):
                        self._starting.pop(name, None)
                        continue
                    self._run(table)
                except RetiredError:
                    self._starting.pop(table.id, None)
                    with self._turn:
                        self._known.pop(name, None)
                except Exception as error:
                    self._starting.pop(table.id, None)
                    if self._ends_all(table, error):
                        raise
                    if not isinstance(error, LakeError) and has_ended(self._site.spark):
                        # The first call that a kill cuts short may fail with any error of Spark's or of Python's.
                        raise gone() from error
                    self._await_next(table, self._fails(table, error))
        except BaseException as error:  # noqa: BLE001  # raised again in serve, once the others have stopped
            self._end(error)

    def _wake(self) -> None:
        """Let tables go on that another process asks for, or that are declared otherwise, and all of them where the JVM is gone."""
        tables = {each.id: each for each in self._tables if each.id in self._sleepers.asleep}
        # One look for all: a request is a file of its own, and a look for each costs more the more tables sleep.
        asks = tables and any(file.startswith(REQUESTS) for file in self._lake.leases.names())
        for name, table in tables.items():
            if self._known.get(name) is not table or (asks and self._asker(table) is not None):
                self._sleepers.wake(name)
        if self._sleepers.asleep and exit_code(self._site.spark) is not None:
            self._end(gone())

    def _slept(self, table: Table, *, sleeps: bool) -> None:
        self._starting.pop(table.id, None)
        self.pulses[table.id].asleep = sleeps

    def _goes_on(self, name: str) -> Table | None:
        """Return a table as it is to run; None where it is fed no more, and its thread ends."""
        with self._turn:
            table = self._known.get(name)
            if table is None:
                self._starting.pop(name, None)
                self._retired.add(name)
                self._fed.discard(name)
        return table

    def _await_next(self, table: Table, seconds: float) -> None:
        """Wait for the next attempt; where another process has repaired or promoted the table, it is at once."""
        before, due = self._traces(table), time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0:
            if self._stop.wait(min(left, self._lake.pause(LOOK))):
                return
            # A look is no attempt: what is wrong with it, the attempt says.
            with suppress(OSError, LakeError):
                if self._traces(table) != before and not is_held(self._lake.lease(table)):
                    return

    def _traces(self, table: Table) -> list[str]:
        """Return what changes when another process works on a table: its lease, its promotion, its newest commit, what is retired, its code."""
        places = [
            self._lake.lease(table),
            Shadow.of(table, self._lake).journal,
            self._lake.retired,
        ]
        found = [str(id(self._known.get(table.id)))]
        # What may not be read leaves no trace until it may, and a store may refuse.
        try:
            path = self._lake.table(table)
            places.append(commit_file(path, latest_version(path)))
        except (OSError, LakeError):
            found.append("closed")
        for place in places:
            try:
                found.append(place.stamp())
            except (OSError, LakeError):
                found.append("")
        return found

    def _await_sources(self, table: Table) -> None:
        pulse = self.pulses[table.id]
        while (
            absent := [each.id for each in table.upstream if not self._lake.exists(each)]
        ) and self._known.get(table.id) is table:
            self._waiting_for_sources.add(table.id)
            pulse.sources = f"for {' and '.join(absent)}, which does not exist yet"
            if self._stop.wait(self._lake.pause(self._poll)):
                return
        pulse.sources = None
        self._waiting_for_sources.discard(table.id)

    def _await_return(self, table: Table) -> None:
        """Leave a table to the process that has asked for it, until that gives it back."""
        pulse = self.pulses[table.id]
        while (who := self._asker(table)) is not None:
            self._handed.add(table.id)
            pulse.away = f"{HANDED_OVER}{who}; it goes on by itself afterwards"
            if self._stop.wait(self._lake.pause(HANDED)):
                return
            self._looked_at.pop(table.id, None)
        pulse.away = None

    def _await_turn(self, table: Table) -> None:
        """Wait until so few other tables start that this one and they get somewhere."""
        pulse = self.pulses[table.id]
        while self._known.get(table.id) is table and not self._may_start(table):
            pulse.away = f"{TURN}; {AT_ONCE} tables do at once"
            if self._stop.wait(self._poll):
                return
        pulse.away = None

    def _may_start(self, table: Table) -> bool:
        with self._turn:
            now = time.monotonic()
            others = [at for at in self._starting.values() if now - at < STARTING]
            if len(others) >= AT_ONCE:
                return False
            self._starting[table.id] = now
            return True

    def _asker(self, table: Table) -> str | None:
        """Return who asks for a table; looked for so rarely that an idle table costs nothing."""
        at, found = self._looked_at.get(table.id, (0.0, None))
        if time.monotonic() >= at:
            with skipped_in_outage():
                found = asker(table, self._lake, self._site.clock())
            self._looked_at[table.id] = time.monotonic() + self._lake.pause(HANDED), found
        return found

    def _leaves(self, table: Table) -> bool:
        """Return whether a table's query is to end after its batch."""
        is_other = self._known.get(table.id) is not table
        return self._stop.is_set() or is_other or self._asker(table) is not None

    def _run(self, table: Table) -> None:
        run(
            table,
            self._mode,
            self._lake,
            site=self._site,
            on_commit=lambda entry: self._committed(table, entry),
            stopped=partial(self._leaves, table),
            waits=partial(self._waits, table),
            holds=partial(self._holds, table),
            gives_way=partial(self._gives_way, table),
            running=self._running[table.id],
            rest=self._sleepers.of(table, lambda sleeps: self._slept(table, sleeps=sleeps)),
        )

    def _ends_all(self, table: Table, error: Exception) -> bool:
        """Return whether an error ends the whole process: the JVM is lost, or a table had another writer from the start."""
        is_first = table.id not in self.errors and table.id not in self._handed
        has_other_writer = isinstance(error, HasWriterError) and is_first
        return has_other_writer or loss(error) is not None

    def _fails(self, table: Table, error: Exception) -> float:
        """Record the failure of a table, and return the seconds until its next attempt."""
        pulse = self.pulses[table.id]
        now = self._site.clock().isoformat(timespec="seconds")
        failure = failing(error, table, self._lake, before=pulse.failing, at=now)
        self.errors[table.id], pulse.failing = error, failure
        return failure.pause

    def _end_without_any(self) -> None:
        """End the process when no table can run; of several errors raise one that a restart may survive, if there is one."""
        able = self.pulses.keys() - self.errors.keys() - self._waiting_for_sources
        if not able and self.errors:
            errors = sorted(
                self.errors.values(), key=lambda each: isinstance(each, DefinitionError)
            )
            self._end(errors[0])

    def _end(self, error: BaseException) -> None:
        self._ended_by = self._ended_by or error
        self._stop.set()

    def _waits(self, table: Table, error: LakeError | None) -> None:
        self._starting.pop(table.id, None)
        pulse = self.pulses[table.id]
        is_gate = isinstance(error, GateShutError)
        pulse.gate = error.message if error and is_gate else None
        pulse.away = error.message if error and not is_gate else None
        if error is None:
            pulse.failing = None
            self.errors.pop(table.id, None)

    def _holds(self, table: Table, rows: int) -> None:
        self.pulses[table.id].state = rows

    def _gives_way(self, table: Table) -> bool:
        found = self._pressure.gives_way(table.id)
        self.pulses[table.id].gives_way = found
        return found or self._holds_back(table)

    def _committed(self, table: Table, entry: Entry) -> None:
        self._pressure.committed(table.id, entry.duration_ms / 1000)
        pulse = self.pulses[table.id]
        pulse.batch = entry.batch
        pulse.batches += 1
        pulse.read += entry.read
        # That of a recomputed table stays where only its dimension changes, which is no fault.
        pulse.watermark = None if isinstance(table, Recomputed) else entry.watermark
        pulse.last_ms = entry.duration_ms
        pulse.size = chosen_size(table, self._lake)
        pulse.at = self._site.clock().isoformat(timespec="seconds")
        pulse.behind = None
        pulse.recent.append((time.monotonic(), entry.read))

    def _measure(self) -> None:
        self._leave_retired()
        with skipped_in_outage():
            self._take_figures()
        self._beat(is_alive=True)

    def _leave_retired(self) -> None:
        """Take retired tables out of the figures; only the thread that measures does, as it goes through them."""
        while self._retired:
            name = self._retired.pop()
            self._tables = [each for each in self._tables if each.id != name]
            self.pulses = {of: each for of, each in self.pulses.items() if of != name}
            self._running = {of: each for of, each in self._running.items() if of != name}
            self.errors.pop(name, None)

    def _keep_house(self) -> list[Closed]:
        """Close books, and look from time to time whether the files of the tables are there; once a minute, in a thread.

        A stream reads what is new, so it would not miss an older file for weeks; on a store each look is a request a file.
        """
        self._rounds += 1
        closed = close(self._lake, self._tables)
        # Last, and counted before: a look that fails keeps no book open.
        is_due = self._rounds % LOOK_AT_FILES == 1
        if self._lake.root.is_local:
            self.look_at_files([t for t in self._tables if is_due or self.pulses[t.id].broken])
        return closed

    def look_at_files(self, tables: Sequence[Table] | None = None) -> None:
        """Note for each table, or for those that are given, which of its files are gone or were cut."""
        for table in self._tables if tables is None else tables:
            try:
                folders = self._lake.folders(table)
                self._files_seen_at[table.id] = latest_version(folders[0])
                broken = [each for path in folders for each in broken_files(path)]
                if broken:  # or maintenance replaced and deleted a file since the log was read
                    broken = sorted(each for path in folders for each in broken_files(path))
            except Exception as error:
                if damage(error, table) is None:
                    raise
                continue  # the table itself fails, and says why
            more = f" and {len(broken) - 1:,} others" if len(broken) > 1 else ""
            self.pulses[table.id].broken = (
                f"its file {broken[0]}{more} is gone, or was cut" if broken else None
            )

    def _was_replaced(self, table: Table) -> bool:
        """Return whether a table that lacked a file was promoted since: the files of a promotion are whole.

        Only its newest commits are read, each once. Its files are looked at once a minute, in a thread of their own.
        """
        if not self.pulses[table.id].broken:
            return False
        path, seen = self._lake.table(table), self._files_seen_at[table.id]
        try:
            newest = latest_version(path)
            found = any(entry.promoted for entry in between(path, seen + 1, newest))
        except Exception as error:
            if damage(error, table) is None:
                raise
            return False
        self._files_seen_at[table.id] = newest
        return found

    def _take_figures(self) -> None:
        now = time.monotonic()
        self._books.follow()
        for table in self._tables:
            pulse = self.pulses[table.id]
            pulse.recent = [(at, rows) for at, rows in pulse.recent if now - at < RATE_OVER]
            pulse.rate = sum(rows for _, rows in pulse.recent) / RATE_OVER
            if self._was_replaced(table):
                pulse.broken = None
            pulse.lag = self._lag(table)
            waits = bool(pulse.gate or pulse.away or pulse.failing)
            self._pressure.measured(table.id, pulse.lag, waits=waits)
            if not pulse.lag or waits:
                pulse.behind = None
            else:
                pulse.behind = pulse.behind or self._site.clock().isoformat(timespec="seconds")
            running = self._running[table.id]
            works = waits or bool(pulse.broken or pulse.sources) or running.idle is not None
            versions = self._versions(table)
            works = works or (pulse.lag == 0 and running.owes(versions))
            is_known = None not in versions.values() and table.id not in self._starting
            self._sleepers.measured(table, pulse.lag, versions, works=works or not is_known)
            self._foresee(table, now)
        self._wake()

    def _versions(self, table: Table) -> dict[str, int | None]:
        return {each.id: self._books.version(each) for each in (*table.needs, table)}

    def _foresee(self, table: Table, now: float) -> None:
        """Measure how fast a table catches up, its sources before it."""
        pulse = self.pulses[table.id]
        sources = [self.pulses[each.id] for each in table.upstream if each.id in self.pulses]
        lags = [pulse.lag, *(each.behind_rows for each in sources)]
        pulse.behind_rows = None if None in lags else sum(lag for lag in lags if lag)
        if pulse.behind_rows is None:
            return
        self._trends[table.id].add(now, pulse.behind_rows)
        pulse.falls = self._trends[table.id].falls

    def _lag(self, table: Table) -> int | None:
        if isinstance(table, Ingested):
            return self._gauge.lags[table.id]
        if table.id in self._books.unreadable or not self._lake.exists(table):
            return None
        return self._books.unread(table)

    def _beat(self, *, is_alive: bool) -> None:
        at: datetime = self._site.clock()
        for name, running in self._running.items():
            idle = running.idle
            self.pulses[name].running = None if idle is None else str(running)
            self.pulses[name].unmoved = None if idle is None else int(idle)
        tables = {name: _as_json(pulse) for name, pulse in self.pulses.items()}
        failed = self._ended_by
        beat = {
            **own(),
            "alive": is_alive,
            "loads_code": self._code is not None,
            "at": at.isoformat(timespec="seconds"),
            "tables": tables,
            "failed": failed.kind if isinstance(failed, LakeError) else None,
        }
        if self._shard is None:
            write_beat(self._lake, self._lake.heartbeat, beat)
        else:
            beat = {**beat, "shard": str(self._shard)}
            write_beat(self._lake, self._shard.beat(self._lake), beat)


SHOWN = tuple(each.name for each in fields(Pulse) if each.name != "recent")


def _as_json(pulse: Pulse) -> dict[str, object]:
    """Return the figures of a table for the heartbeat; ``asdict`` copies each of them, which takes ten times as long."""
    found = {name: getattr(pulse, name) for name in SHOWN}
    return found if pulse.failing is None else {**found, "failing": asdict(pulse.failing)}
