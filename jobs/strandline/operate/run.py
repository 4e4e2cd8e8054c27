"""Tables brought up to date; those that another process writes are passed over, and one that fails stops no other.

Neither the stream of one table nor its failure is a reason to skip ten others: a table reads the commits of its sources, by
any process. A table that was passed over or has failed is reported at once, and again by the exit code, so that a scheduler
retries later.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.stateful import AvailableNow, Batch, Mode
from strandline.core.table import Ingested, Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.ask.moments import note_or_reason
from strandline.engine.flow.batch.governor import FIRST
from strandline.engine.flow.preflight import (
    Verdict,
    judge,
    needs_look,
    needs_spark,
    refuse,
    refuse_without_source,
    with_topics,
)
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Report
from strandline.engine.kafka import broker
from strandline.engine.kafka.slices import Backlog, Part, range_ends, unread_offsets
from strandline.engine.lake.completeness import fed, needed_in, refuse_retired, with_below
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, is_held, refuse_if_taken
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.repair.close import NotClosedError, close, close_as_batch, waits
from strandline.engine.runtime.settings import Settings
from strandline.engine.runtime.spark_session import refuse_too_many
from strandline.operate import lakes, session
from strandline.operate.listener import Says, UnforeseenError

PATIENCE, AGAIN = 120.0, 0.5
"""Seconds to wait for a stream to read what its sources have, and between two looks."""

A_CORE, HEAP_EACH, MOST = 2, 512, 24
"""Tables at a time for each core, megabytes of heap for each of them, and the most of them."""

BRIEF = 1_500_000
"""Rows that all tables of a run read, below which the quick compiler needs less CPU than the thorough one: some 400,000 events of the
example, of which 100,000 are 390,000 rows."""

Given = ParamSpec("Given")


# Tables side by side: each after those of them that it needs, as many at a time as cores and memory allow.
#
# What a table with few rows takes is mostly one thread of the driver, which plans, reads logs and commits, while the cores wait.
# One with a backlog takes the cores by itself, and its first batch half of the heap: of those one is computed at a time.


def at_once(found: Settings) -> int:
    """Return how many tables a run works on at a time."""
    if found.tables_at_once is not None:
        return found.tables_at_once
    return max(1, min(A_CORE * found.cores, found.megabytes // HEAP_EACH, MOST))


@dataclass(slots=True)
class SideBySide:
    """Works on tables in threads.

    Args:
        most: How many of them at a time.
        work: Works on one; an error that it raises ends all.
        is_large: Returns whether a table is one of those of which one is computed at a time; asked when it could begin.
    """

    most: int
    work: Callable[[Table], object]
    is_large: Callable[[Table], bool] = lambda _: False
    ends: threading.Event = field(default_factory=threading.Event)
    """Is set when an error ends all, so that what runs ends after its batch."""
    _left: dict[str, Table] = field(default_factory=dict)
    _at_work: dict[Future[object], str] = field(default_factory=dict)
    _large: dict[str, bool] = field(default_factory=dict)

    def go(self, tables: Sequence[Table]) -> None:
        """Work on each table after those that it needs.

        Raises:
            Exception: What ``work`` has raised first; those that were begun have ended, and no other was.
        """
        self._left = {each.id: each for each in tables}
        with ThreadPoolExecutor(self.most, thread_name_prefix="table") as pool:
            try:
                while self._begin(pool):
                    done, _ = wait(self._at_work, return_when=FIRST_COMPLETED)
                    for each in done:
                        del self._at_work[each]
                        each.result()
            except BaseException:
                self.ends.set()
                raise

    def _begin(self, pool: ThreadPoolExecutor) -> bool:
        """Begin what may begin, and return whether something is at work."""
        while len(self._at_work) < self.most and (table := self._next()) is not None:
            del self._left[table.id]
            self._at_work[pool.submit(self.work, table)] = table.id
        return bool(self._at_work)

    def _next(self) -> Table | None:
        undone = {*self._left, *self._at_work.values()}
        has_large = any(self._large[name] for name in self._at_work.values())
        for name, table in self._left.items():
            if any(each.id in undone for each in table.needs):
                continue
            if name not in self._large:
                self._large[name] = self.is_large(table)
            if not (has_large and self._large[name]):
                return table
        return None


def has_backlog(table: Table, lake: Lake, how: Mode) -> bool:
    """Return whether a table has so much to read that its batch takes the memory that there is; bronze keeps no rows in it."""
    if isinstance(table, Ingested):
        return False
    try:
        return to_read(table, lake, how) > FIRST
    except Exception:  # noqa: BLE001  # what is wrong with its books, its own run says
        return False


def to_read(table: Table, lake: Lake, how: Mode) -> int:
    """Return how many rows of its sources a table has to read, from the ledgers alone."""
    if how.name == Batch().name:
        return sum(sums_of(lake.table(each)).written for each in table.upstream)
    return waiting(table, lake)


def in_turn(lock: threading.RLock, heard: Callable[Given, None]) -> Callable[Given, None]:
    """Let one thread at a time call a function."""

    def alone(*args: Given.args, **kwargs: Given.kwargs) -> None:
        with lock:
            heard(*args, **kwargs)

    return alone


@dataclass(slots=True)
class Passed:
    """The tables that were passed over.

    Args:
        lake: Their lake.
        says: Hears of each at once.
        why: The reason, by table.
    """

    lake: Lake
    says: Says
    why: dict[str, str] = field(default_factory=dict)

    def add(self, table: Table, why: str) -> None:
        """Pass a table over, and report it."""
        self.why[table.id] = why
        self.says(f"{table.id} is passed over: {why}")

    def blocks(self, table: Table) -> bool:
        """Return whether a table cannot run, because a source was passed over and does not exist yet."""
        absent = [s.id for s in table.upstream if s.id in self.why and not self.lake.exists(s)]
        if absent:
            self.add(table, f"it reads {' and '.join(absent)}, which does not exist yet")
        return bool(absent)

    def refuse(self, tried: int) -> None:
        """Refuse a run that passed tables over.

        Raises:
            TransientError: It did.
        """
        if self.why:
            names = ", ".join(self.why)
            raise TransientError(
                f"{len(self.why)} of {tried} tables could not be brought up to date: {names}",
                hint="another process writes them, and keeps them up to date if it is a stream (`strandline status`); "
                "type the same again when it has ended.",
                tables=list(self.why),
            )


@dataclass(slots=True)
class Failed:
    """The tables that failed.

    Args:
        lake: Their lake.
        says: Hears of each at once.
        errors: The error of each.
    """

    lake: Lake
    says: Says
    errors: dict[str, LakeError] = field(default_factory=dict)

    @staticmethod
    def ends_all(error: Exception) -> bool:
        """Return whether no other table could run either: Spark has ended, or what they all need is away."""
        from strandline.engine.runtime.outage import transient  # noqa: PLC0415  # with Spark's errors, which take long to import

        return transient(error) is not None

    def add(self, table: Table, error: Exception) -> None:
        """Note a failure, and report it."""
        self.errors[table.id] = known = _named(table, error, self.lake)
        self.says(f"{table.id} failed, and the others go on: {known.message}")

    def blocks(self, table: Table) -> bool:
        """Return whether a table cannot run, because a source has failed and does not exist yet."""
        absent = [s.id for s in table.upstream if s.id in self.errors and not self.lake.exists(s)]
        if absent:
            self.says(
                f"{table.id} waits: it reads {' and '.join(absent)}, which does not exist yet"
            )
            self.errors[table.id] = self.errors[absent[0]]
        return bool(absent)

    def refuse(self, tried: int) -> None:
        """Refuse a run in which tables failed.

        Raises:
            LakeError: They did.
        """
        if not self.errors:
            return
        first = next(iter(self.errors.values()))
        if len(self.errors) == 1:
            raise first
        raise type(first)(
            f"{len(self.errors)} of {tried} tables failed ({', '.join(self.errors)}); of the first: {first.message}",
            hint=first.hint,
            tables=list(self.errors),
        )


def _named(table: Table, error: Exception, lake: Lake) -> LakeError:
    """Return an error with the name of its table; of an unforeseen one the trace is kept."""
    from strandline.engine.runtime.outage import denied  # noqa: PLC0415  # as above
    from strandline.engine.service.stream_health import failing  # noqa: PLC0415  # as above

    known = error if isinstance(error, LakeError) else denied(error)
    if known is None:
        unforeseen = failing(error, table, lake, before=None, at="")
        return UnforeseenError(
            f"{table.id}: {unforeseen.says}", hint=unforeseen.hint, table=table.id
        )
    if table.id in known.message:
        return known
    return type(known)(f"{table.id}: {known.message}", hint=known.hint, **known.fields)


def free(chosen: Sequence[Table], lake: Lake, says: Says) -> tuple[list[Table], Passed]:
    """Return the tables that no other process writes, and those that are passed over.

    Raises:
        TransientError: No table is left.
    """
    passed, left = Passed(lake, says), list[Table]()
    first: LakeError | None = None
    for table in chosen:
        try:
            refuse_if_taken(table, lake)
        except HasWriterError as error:
            first = first or error
            passed.add(table, error.message)
            continue
        if not passed.blocks(table):
            left.append(table)
    if first is not None and not left:
        raise first
    return left, passed


@dataclass(slots=True)
class CaughtUp:
    """What became of tables that were to be brought up to date.

    Args:
        tried: How many there were.
        passed: Those that another process writes.
        failed: Those that failed.
        reports: The others.
        shut: The error of the first gate that is shut.
    """

    tried: int
    passed: Passed
    failed: Failed
    reports: list[Report] = field(default_factory=list)
    shut: GateShutError | None = None

    def refuse(self) -> None:
        """Refuse a run that has not brought all of them up to date.

        Raises:
            LakeError: Tables failed; this names them all, with what to do about the first, and the other tables are done.
            GateShutError: Gates are shut; this is the first, and the other tables are done.
            TransientError: Another process writes some of them; the others are done.
        """
        self.failed.refuse(self.tried)
        if self.shut is not None:
            raise self.shut
        self.passed.refuse(self.tried)


def catch_up(  # noqa: PLR0913  # what is run, where, how, and who hears of it
    found: Settings,
    where: Lake,
    chosen: list[Table],
    how: Mode = AvailableNow(),  # noqa: B008  # never changed
    *,
    says: Says,
    on_commit: Callable[[Table, Entry], None],
    on_done: Callable[[Report], None],
    closed_by: str = "",
) -> CaughtUp:
    """Bring tables up to date, each after those it reads; what passes or fails stops no other table.

    Args:
        found: The settings.
        where: The lake.
        chosen: The tables, in the order in which data flows.
        how: The mode.
        says: Hears which tables are passed over or fail.
        on_commit: Hears of each batch.
        on_done: Hears of each table that is done.
        closed_by: Who orders that what waits for time to pass is closed, when, and by which word; nothing is closed without it.

    Raises:
        TransientError: Another process writes all of them.
    """
    lock = threading.RLock()
    says, on_commit, on_done = (in_turn(lock, each) for each in (says, on_commit, on_done))
    # What a stream feeds it goes on to feed, and a table that is to be closed it hands over.
    left, passed = ([*chosen], Passed(where, says)) if closed_by else free(chosen, where, says)
    others = {each.id for each in left if closed_by and is_held(where.lease(each))}
    asked = [each for each in left if each.id not in others or isinstance(each, Ingested)]
    site = _ready(found, where, asked, says, how)
    failed = Failed(where, says)
    done = CaughtUp(len(chosen), passed, failed)
    shut: dict[str, GateShutError] = {}

    def bring_up(table: Table) -> None:
        with lock:
            if passed.blocks(table) or failed.blocks(table):
                return
        try:
            heard = partial(on_commit, table)
            if closed_by and waits(table):
                refuse_incomplete(table, where, {*failed.errors, *passed.why})
                report = _closed(table, how, where, site, closed_by, says, heard)
            elif table.id in others:
                report = await_read(table, where, site)
            else:
                ends = all_of_them.ends.is_set
                report = run(table, how, where, site=site, on_commit=heard, stopped=ends)
        except GateShutError as error:  # the tables above go on with the published rows
            says(error.message)
            shut[table.id] = error
        except HasWriterError as error:  # since the check above
            with lock:
                passed.add(table, error.message)
        except Exception as error:
            if failed.ends_all(error) and not isinstance(error, NotClosedError):
                raise
            with lock:
                failed.add(table, error)
        else:
            done.reports.append(report)
            on_done(report)

    all_of_them = SideBySide(
        at_once(found), bring_up, is_large=partial(has_backlog, lake=where, how=how)
    )
    all_of_them.go(left)
    # As if one had run after the other: whichever ended first decides no exit code, and no order of what is printed.
    order = [each.id for each in chosen]
    done.reports.sort(key=lambda each: order.index(each.table))
    failed.errors = {name: failed.errors[name] for name in order if name in failed.errors}
    passed.why = {name: passed.why[name] for name in order if name in passed.why}
    done.shut = next((shut[name] for name in order if name in shut), None)
    _note_moment(where, says)
    return done


def _note_moment(where: Lake, says: Says) -> None:
    """Note the versions of all tables that belong together now."""
    if why := note_or_reason(where, catalog.tables(), "a run"):
        says(f"no moment is noted: {why}")


def _closed(  # noqa: PLR0913, PLR0917  # which table, how, with what, by whom, and who hears of it
    table: Table,
    how: Mode,
    where: Lake,
    site: Site,
    by: str,
    says: Says,
    on_commit: Callable[[Entry], None],
) -> Report:
    """Bring a table that waits up to date, and close it."""
    if how.name == Batch().name:
        close_as_batch(table, where, site, by)
        return run(table, how, where, site=site, on_commit=on_commit)
    done = close(table, where, site, by, note=says, on_commit=on_commit)
    if done.until is None:
        says(f"{table.id} has read nothing that could be closed")
    else:
        says(f"{table.id} is closed: all time until {done.until.isoformat()} is over")
    return done.report


def refuse_incomplete(table: Table, lake: Lake, lacking: Collection[str]) -> None:
    """Refuse to close a table of which one below has not all of its rows: what these become would be refused as late.

    Raises:
        NotClosedError: One below was not brought up to date.
        GateShutError: A gate keeps rows from it.
    """
    reached = with_below(table)
    for each in reached:
        if found := gate_files.stops(each, lake):
            before = found.where is gate_files.Where.BEFORE
            raise GateShutError.before(found) if before else GateShutError.behind(each, found)
    without = [each.id for each in reached if each.id in lacking]
    if without:
        raise NotClosedError(
            f"{table.id} is not closed: {' and '.join(without)} could not be brought up to date, and what comes of its rows would "
            "be refused",
            hint="type the same again when it has read them (`strandline status`).",
            table=table.id,
        )


def await_read(table: Table, lake: Lake, site: Site) -> Report:
    """Wait until the process that feeds a table has read what its sources have by now; nothing is done here.

    Raises:
        TransientError: It does not.
    """
    unread = _unread_of_kafka(table, lake, site) if isinstance(table, Ingested) else None
    deadline = time.monotonic() + PATIENCE
    while (rows := unread() if unread else waiting(table, lake)) > 0:
        if time.monotonic() > deadline:
            raise TransientError(
                f"{table.id} has {rows:,} rows to read, and the process that feeds it does not read them",
                hint="`strandline status` says why; type the same again when it has read them.",
                table=table.id,
            )
        time.sleep(AGAIN)
    return Report(table=table.id, mode=AvailableNow().name)


def _unread_of_kafka(table: Ingested, lake: Lake, site: Site) -> Callable[[], int]:
    """Return what says how many offsets a table has still to read of those that its topics have now."""

    def read() -> Mapping[Part, int]:
        newest = last_entry(lake.table(table))
        return range_ends(newest[1].offsets) if newest else {}

    left = sums_of(lake.table(table)).retired if lake.exists(table) else {}
    topics = [topic for topic in table.topics if topic.name not in left]
    log = Backlog(site.kafka(table.id), site.options, topics, read())
    try:
        bounds = log.bounds()
    finally:
        log.close()

    def unread() -> int:
        at = read()
        return sum(
            max(end - max(at.get(part, first), first), 0) for part, (first, end) in bounds.items()
        )

    return unread


def with_sources(tables: Sequence[Table], lake: Lake) -> list[Table]:
    """Return tables and all that they read and that are fed, each after those that it reads."""
    return fed(with_below(*tables, sources=needed_in(lake))[::-1], lake)


def _ready(found: Settings, where: Lake, chosen: list[Table], says: Says, how: Mode) -> Site:
    """Refuse early what cannot work, before Spark takes its seconds to start."""
    refuse_early(where, chosen)
    needs_kafka = any(isinstance(table, Ingested) for table in chosen)
    address = lakes.demanded_address(found, where) if needs_kafka else None
    rows = rows_to_read(found, where, chosen, address, how)
    is_brief = rows is not None and rows < BRIEF
    return session.site(found, where, address, is_brief=is_brief, says=says)


def rows_to_read(
    found: Settings, lake: Lake, tables: Sequence[Table], address: str | None, how: Mode
) -> int | None:
    """Return about how many rows tables have to read, each those that its sources will have; None where that is not known.

    Without a JVM: Kafka and the ledgers of the example's 24 tables answer in a third of a second on a busy machine, for 0.06 s of CPU.
    """
    try:
        reads = unread_offsets(tables, lake, address, found.kafka_options, also_new=True)
        for table in tables:
            if not isinstance(table, Ingested):
                own = to_read(table, lake, how) if all(map(lake.exists, table.upstream)) else 0
                reads[table.id] = own + sum(reads.get(each.id, 0) for each in table.upstream)
    except Exception:  # noqa: BLE001  # what is wrong with the books of one, its own run says
        return None
    return sum(reads.values())


def refuse_early(where: Lake, chosen: list[Table]) -> None:
    """Refuse a lake that cannot be written, and a table without its source."""
    where.open_for_writing()
    ids = {table.id for table in chosen}
    for table in chosen:
        if not {source.id for source in table.upstream} & ids:
            refuse_without_source(table, where)


# May each table's stream go on with its checkpoint? Asked before a stream starts, and by itself; and what else a start refuses.


def with_absent_topics(
    verdicts: Sequence[Verdict],
    found: Settings,
    where: Lake,
    tables: Sequence[Table],
    says: Says,
) -> Iterator[Verdict]:
    """Yield verdicts, and of a table whose topic is not in Kafka, that it is to be made first, or must not be made anew.

    A broker that is away is no verdict about a table: the stream waits for it. Nor is one that refuses the client.
    """
    absent: set[str] = set()
    asked = [table for table in tables if table.topics]
    address = lakes.address(found, where) if asked else None
    if address is None and asked:
        says("no broker is known, so it was not looked whether each topic is there")
    elif address is not None:
        try:
            missing = broker.missing(address, found.kafka_options, asked)
            absent = {topic.name for topic in missing}
        except LakeError as error:
            says(f"it was not looked whether each topic is there: {error.message}")
    for table, verdict in zip(tables, verdicts, strict=True):
        yield with_topics(verdict, table, where, absent, at=str(address))


def refuse_unsafe(found: Settings, where: Lake, tables: Sequence[Table], says: Says) -> None:
    """Refuse to start streams of which one may not go on; Spark is started only where code or sources changed.

    Raises:
        DefinitionError: A table may not go on.
    """
    if any(needs_spark(table, where) for table in tables):
        # A stream that is started after it inherits its priority, so it gives way to none.
        refuse(*verdicts_of(found, where, tables, says, beside=False))


def verdicts_of(  # noqa: PLR0913  # what is asked, of what, and how
    found: Settings,
    where: Lake,
    tables: Sequence[Table],
    says: Says,
    *,
    looks: bool = False,
    beside: bool = True,
) -> list[Verdict]:
    """Return whether each table's stream may go on; Spark is started only where code or sources changed.

    Args:
        found: The settings.
        where: The lake.
        tables: The tables that are asked about.
        says: Hears what takes time.
        looks: Whether to start Spark as well where what a stream searches was never looked at.
        beside: Whether this work gives way to a stream on this machine.
    """
    asks = any(
        needs_spark(table, where) or (looks and needs_look(table, where)) for table in tables
    )
    if not asks:
        return [judge(None, table, where) for table in tables]
    says("comparing plans, for which Spark starts …")
    spark = session.site(found, where, None, is_brief=True, says=says, beside=beside).spark
    try:
        return [judge(spark, table, where) for table in tables]
    finally:
        spark.stop()


def without_retired(tables: list[Table], where: Lake) -> list[Table]:
    """Leave out retired tables: a background stream is started with the names of its last start.

    Raises:
        RetiredError: No other is named.
    """
    left = fed(tables, where)
    if tables and not left:
        refuse_retired(tables[0], where)
    return left


def ready_to_stay(  # noqa: PLR0913  # what is run, where, how, and who hears of it
    found: Settings,
    where: Lake,
    chosen: list[Table],
    says: Says,
    *,
    patient: bool,
    shared: bool = False,
) -> Site:
    """Refuse early what cannot work, and start Spark for a stream; the lake's own broker is located whenever it is needed.

    A patient start has no reader of its refusal, so of several tables those that may not go on fail by themselves while the
    others run: a watchdog may restart a stream in the middle of an edit. Where other hosts have a share of the tables, what theirs
    are to make first is waited for.
    """
    refuse_early(where, [] if shared else chosen)
    refuse_too_many(len(chosen))

    def locate() -> str | None:
        return lakes.address(found, where) or broker.remembered(where)

    needs_kafka = any(isinstance(table, Ingested) for table in chosen)
    if needs_kafka and not (patient and locate()):
        lakes.demanded_address(found, where)
    site = session.site(found, where, found.kafka, locate=locate, says=says)
    verdicts = [judge(site.spark, each, where) for each in chosen if needs_spark(each, where)]
    try:
        refuse(*verdicts)
    except DefinitionError as error:
        unsafe = error.fields["tables"]
        if not patient or not isinstance(unsafe, list) or len(unsafe) == len(chosen):
            raise
        says(f"{error.message}\nthe other {len(chosen) - len(unsafe)} tables run")
    return site
