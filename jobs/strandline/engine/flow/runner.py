"""The one verb: ``run(table, mode, lake)``. A mode is asked once, and one loop does the work of every table."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.routes import schemas_from
from strandline.core.stateful import AvailableNow, Batch, MicroBatch, Mode
from strandline.core.table import Computed, Ingested, Recomputed, Streamed, Table
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.accounting.gate_files import GateShutError, stops
from strandline.engine.accounting.table_books import close_or_reason
from strandline.engine.flow import function_plan
from strandline.engine.flow.batch.batch_writer import Writer
from strandline.engine.flow.batch.event_joins import Again, Pinned, Taker, joining
from strandline.engine.flow.batch.governor import Governor, TriggerLimit
from strandline.engine.flow.function_plan import of_function, sentences
from strandline.engine.flow.ingest import Intake
from strandline.engine.flow.preflight import refuse_without_source
from strandline.engine.flow.provisional import Aside
from strandline.engine.flow.query import follow_again, start, would_do_nothing
from strandline.engine.flow.recompute import Afresh, compute
from strandline.engine.flow.running import (
    Apart,
    Lookout,
    Recorder,
    Report,
    Running,
    Wrote,
    unmeasured,
    unrecorded,
    weigh,
    weighing,
)
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.kafka.send_records import GivenTopics
from strandline.engine.lake.completeness import refuse_retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.open_table import lost_file
from strandline.engine.lake.shelves import Shelf
from strandline.engine.runtime.jvm import Heap
from strandline.engine.runtime.outage import Patience, soon
from strandline.engine.runtime.spark_session import leave_state

POLL = 0.05
LOOK_AT_GATE = 1.0
GROUP = "spark.jobGroup.id"
"""Spark's name for what a thread's jobs belong to; those of a query have its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a run needs from outside: Spark, a clock, and for bronze an address of Kafka.

    ``locate`` finds Kafka again where there is no ``address``: the lake's own broker may return at another port.
    ``record`` records runs for a catalog of lineage, ``apart`` measures what is done for a table apart from it. ``given`` has the records of topics where there is no Kafka, in a test. ``says`` is called with what a person should read. ``poll`` are the seconds between two looks at a table: beside two hundred
    others a look costs as much as its work.
    """

    spark: SparkSession
    clock: Callable[[], datetime]
    address: str | None = None
    locate: Callable[[], str | None] = lambda: None
    options: Mapping[str, str] = field(default_factory=dict)
    record: Recorder = unrecorded
    apart: Apart = unmeasured
    given: GivenTopics | None = None
    says: Callable[[str], None] = lambda _: None
    poll: float = POLL

    def kafka(self, name: str) -> str:
        """Return the address of Kafka, which a table or a feed reads.

        Raises:
            DefinitionError: No broker is known.
        """
        address = self.address or self.locate()
        if address is None:
            raise DefinitionError(
                f"{name} reads Kafka, but no broker is known",
                hint="start ours with `strandline up`, or set STRANDLINE_KAFKA.",
            )
        return address

    def intake(self, table: Ingested, lake: Lake, mode: str) -> Intake:
        """Open the topic of a bronze table."""
        return Intake(
            self.spark,
            table,
            lake,
            address=self.kafka(table.id) if self.given is None else "",
            options=self.options,
            mode=mode,
            clock=self.clock,
            given=self.given,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a mode means to a run, so that nothing below asks for a mode again.

    Args:
        every: Seconds between the begins of two steps of a run that goes on; None where it ends with what is there.
        most: The most records in one batch; chosen from what is measured when absent.
        whole: Whether all is computed at once, over all rows.
    """

    every: float | None = None
    most: int | None = None
    whole: bool = False

    @classmethod
    def of(cls, mode: Mode) -> "Pace":
        """Return what a mode means."""
        match mode:
            case Batch():
                return cls(whole=True)
            case AvailableNow(max_offsets=most):
                return cls(most=most)
            case MicroBatch(every=every, max_offsets=most):
                return cls(every=every, most=most)
            case _:
                assert_never(mode)


LOOKS = 5
"""Looks of a table above bronze in the time from batch to batch: it has a batch once the tables below it have one, so the waits of a
chain of three do not add up to three times that."""
LOOK_SHARE = 20
"""Times the pause between two looks of a process at its tables: a trigger of Spark that finds nothing takes some 4 ms of CPU, so beside
sixty others a table looks less often."""


def looks_every(every: float, lake: Lake, poll: float) -> float:
    """Return the seconds between two looks of a table above bronze; on a store, where each look is requests, those of a batch."""
    return min(every, max(every / LOOKS, LOOK_SHARE * poll)) if lake.root.is_local else every


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One run of one table."""

    table: Table
    lake: Lake
    site: Site
    on_commit: Callable[[Entry], None]
    stopped: Callable[[], bool]
    waits: Callable[[LakeError | None], None]
    holds: Callable[[int], None]
    patience: Patience
    gives_way: Callable[[], bool]
    running: Running
    taker: Taker
    aside: Aside
    pace: Pace
    mode: str

    def governor(self) -> Governor:
        return Governor(self.table, self.lake, Heap(self.site.spark), fixed=self.pace.most)

    @contextmanager
    def at_work(self, batch: int | None = None) -> Iterator[None]:
        self.running.handed(batch)
        try:
            yield
        finally:
            self.running.ends()


@dataclass(frozen=True, slots=True)
class Rest:
    """What an always-on table does while it has nothing to read: it keeps its lease, and has no query and no client of Kafka.

    Args:
        is_due: Returns whether it is to begin, once the running batch has ended.
        take: Waits until there is something to read, or the run is to stop; returns at once where it is not due any more.
    """

    is_due: Callable[[], bool] = lambda: False
    take: Callable[[], None] = lambda: None


NEVER = Rest()


def run(  # noqa: PLR0913  # the one verb: what, how, where, with what, and what hears of it
    table: Table,
    mode: Mode,
    lake: Lake,
    *,
    site: Site,
    on_commit: Callable[[Entry], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    waits: Callable[[LakeError | None], None] = lambda _: None,
    holds: Callable[[int], None] = lambda _: None,
    gives_way: Callable[[], bool] = lambda: False,
    running: Running | None = None,
    rest: Rest = NEVER,
) -> Report:
    """Run a table in a mode.

    Args:
        table: What to run.
        mode: How; ``MicroBatch`` goes on until ``stopped`` says so.
        lake: Where.
        site: With what.
        on_commit: Called with the entry of each committed batch.
        stopped: Asked between batches.
        waits: Called with the reason when an always-on table waits, for a gate or an outage, and with None when it works.
        holds: Called from time to time with the number of rows in the state of an always-on table.
        gives_way: Asked whether the next batch of an always-on table that reads Kafka is to wait.
        running: Is kept to what the table is at.
        rest: When an always-on table rests.

    Returns:
        What was done.

    Raises:
        GateShutError: A batch fails its checks, in a mode that ends.
        RetiredError: The table is retired.
        TransientError: Something that it needs is unavailable, in a mode that ends.
    """
    report = Report(table=table.id, mode=mode.name)
    patience = Patience(waits, stopped)
    recorded: list[Wrote] = []
    at = running or Running()

    def committed(entry: Entry) -> None:
        at.moved()
        report.add(entry)
        patience.well()
        for wrote in recorded:
            wrote(table, entry)
        on_commit(entry)

    def weighed(rows: int) -> None:
        patience.well()  # a trigger has ended, also where it had nothing to read
        holds(rows)

    refuse_retired(table, lake)
    refuse_without_source(table, lake)
    refuse_half_done(table, lake)
    if not lake.exists(table):
        for line in sentences(of_function(site.spark, table, lake)):
            site.says(f"{table.id}: {line}")
    pace = Pace.of(mode)
    job = _Job(
        table=table,
        lake=lake,
        site=site,
        on_commit=committed,
        stopped=lambda: stopped() or rest.is_due(),
        waits=waits,
        holds=weighed,
        patience=patience,
        gives_way=gives_way,
        running=at,
        taker=Taker(site.spark, table, lake, site.clock, site.says),
        aside=Aside(site.spark, table, lake, site.clock, site.says),
        pace=pace,
        mode=mode.name,
    )
    at.owes = job.aside.is_owed
    if isinstance(table, Ingested):
        work = partial(_take_in, job, table)
    else:
        work = partial(_through_gates, job, table)
    record = site.record(site.spark, table, mode.name, lake)
    with (
        lease(site.spark, table, lake),
        record as wrote,
        schemas_from(Shelf(lake.schemas)),
        joining(table, lake),
    ):
        recorded.append(wrote)
        refuse_retired(table, lake)  # since the look above: who retires it looks at the lease
        if not isinstance(table, Ingested):
            function_plan.learn(site.spark, table, lake)
        if pace.every is not None:
            patience.outlast(partial(_feed, work, stopped, rest))
        else:
            soon(work)
            report.books_open = close_or_reason(table, lake)
    if pace.every is None:
        job.aside.keep()
    return report


def _feed(work: Callable[[], object], stopped: Callable[[], bool], rest: Rest) -> None:
    """Work, rest and work again until stopped."""
    while True:
        work()
        if stopped():
            return
        rest.take()


def _take_in(job: _Job, table: Ingested) -> None:
    intake = job.site.intake(table, job.lake, job.mode)
    try:
        _go(job, Arrivals(job, intake))
    finally:
        intake.close()


def _through_gates(job: _Job, table: Computed) -> None:
    """Derive a table; an always-on table waits at a shut gate and keeps its lease."""
    while True:
        try:
            with _naming_lost_files(table, job.lake):
                job.taker.take()
                return _go(job, _hop(job, table))
        except GateShutError as error:
            if job.pace.every is None:
                raise
            _wait_at_gate(job, error)
        if job.stopped():
            return None


@contextmanager
def _naming_lost_files(table: Computed, lake: Lake) -> Iterator[None]:
    """Raise the damage that an error of Spark means; a stream's batches ask for themselves, and not all is one."""
    try:
        yield
    except LakeError:
        raise
    except Exception as error:
        lost = lost_file(error, table, lake)
        if lost is None:
            raise
        raise lost from error


def _wait_at_gate(job: _Job, error: GateShutError) -> None:
    job.waits(error)
    while stops(job.table, job.lake) and not job.stopped():
        time.sleep(LOOK_AT_GATE)
    job.waits(None)


class Hop(Protocol):
    """The work of a table, in pieces."""

    def step(self) -> int:
        """Do what there is to do, and return the number of commits."""

    def follow(self, looks: float) -> bool:
        """Go on by itself until the run is stopped; return False where it has to be asked, step by step.

        Args:
            looks: Seconds between two looks whether there is something to do.
        """


def _go(job: _Job, hop: Hop) -> None:
    """Do the work of a table: once, or until stopped, beginning a step every so many seconds."""
    every = job.pace.every
    if every is None:
        hop.step()
        return
    is_bronze = isinstance(job.table, Ingested)
    looks = every if is_bronze else looks_every(every, job.lake, job.site.poll)
    if hop.follow(looks):
        return
    job.running.group = job.table.id
    job.site.spark.sparkContext.setLocalProperty(GROUP, job.running.group)
    while not job.stopped():
        begun = time.monotonic()
        with job.at_work():
            commits = hop.step()
        job.patience.well()
        due = begun + (every if commits else looks)
        if not commits:
            # Asking again without a pause would take Python from the queries beside this one.
            due = max(due, time.monotonic() + POLL)
        job.aside.look()
        while (time.monotonic() < due or job.gives_way()) and not job.stopped():
            time.sleep(job.site.poll)


def _hop(job: _Job, table: Computed) -> Hop:
    """Return how a table above bronze is computed."""
    guard = Guard(table, job.lake, job.site.clock)
    if job.pace.whole:
        return Whole(job, table, guard)
    if isinstance(table, Recomputed):
        return Windows(job, Afresh(job.site.spark, table, job.lake, job.mode))
    return Stream(job, table, guard)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Work that does nothing unless it is asked for its next step."""

    job: _Job

    def follow(self, looks: float) -> bool:  # noqa: ARG002  # the shape of all
        """Return that it has to be asked."""
        return False


@dataclass(frozen=True, slots=True)
class Arrivals(_Asked):
    """Bronze: what Kafka has, slice by slice."""

    intake: Intake
    governor: Governor | None = field(init=False)

    def __post_init__(self) -> None:
        """Let slices be chosen, where not all is read at once."""
        object.__setattr__(self, "governor", None if self.job.pace.whole else self.job.governor())

    def step(self) -> int:
        """Read what is available."""
        commits = 0
        for entry in self.intake.catch_up(self.governor, self.job.stopped):
            self.job.on_commit(entry)
            commits += 1
        return commits


@dataclass(frozen=True, slots=True)
class Whole(_Asked):
    """A table that is computed once over all rows."""

    table: Computed
    guard: Guard

    def step(self) -> int:
        """Compute it."""
        job = self.job
        job.on_commit(compute(job.site.spark, self.table, job.lake, self.guard))
        return 1


@dataclass(frozen=True, slots=True)
class Windows(_Asked):
    """A table whose windows are computed again where a source has changed."""

    afresh: Afresh

    def step(self) -> int:
        """Compute again what changed."""
        self.job.taker.look()
        if (entry := self.afresh.catch_up()) is None:
            return 0
        self.job.on_commit(entry)
        return 1


class Stream:
    """A table that follows the rows which are appended to its sources: Spark begins its batches."""

    def __init__(self, job: _Job, table: Streamed, guard: Guard) -> None:
        """Prepare; no query is started."""
        spark, lake = job.site.spark, job.lake
        self._job, self._table = job, table
        self._limit = TriggerLimit(table, lake, job.governor())
        self._pinned = Pinned(table, lake)
        self._writer = Writer(
            table, lake, job.mode, job.on_commit, guard, self._limit, self._pinned
        )
        self._again = Again(spark, table, lake)
        self._due = time.monotonic()
        self._query: StreamingQuery | None = None

    def step(self) -> int:
        """Read what is available; its commits are counted by those who hear of them."""
        table, lake = self._table, self._job.lake
        if not (would_do_nothing(table, lake) and self._limit.is_read_out()):
            self._limit.begin_large()
            follow_again(partial(self._begin, None), self._writer, self._job.stopped)
            if self._query is not None:
                weigh(self._query, table, lake)
            leave_state(self._job.site.spark)
        self._look_again()
        return 0

    def follow(self, looks: float) -> bool:
        """Let Spark look for a batch every so many seconds, and look beside it at what no batch brings."""
        job = self._job
        poll = weighing(job.holds, job.table, job.lake)
        lookout = Lookout(job.site.spark, job.running)

        def beside(query: StreamingQuery) -> None:
            if time.monotonic() >= self._due:
                self._due = time.monotonic() + job.lake.pause(job.site.poll)
                job.taker.look()
                self._look_again()
            job.aside.look()
            poll(query)
            lookout.look(query)

        try:
            begin = partial(self._begin, looks)
            follow_again(begin, self._writer, job.stopped, beside, job.site.poll)
        finally:
            job.running.ends()
        leave_state(job.site.spark)
        return True

    def _begin(self, every: float | None) -> StreamingQuery:
        self._pinned.pin()
        job = self._job
        files = self._limit.files
        self._query = start(job.site.spark, self._table, job.lake, self._write, every, files)
        return self._query

    def _write(self, rows: DataFrame, number: int) -> None:
        with self._job.at_work(number):
            self._writer(rows, number)

    def _look_again(self) -> None:
        """Update rows whose dimension has changed, between two batches."""
        if not self._writer.writing.acquire(blocking=False):
            return
        try:
            entry = self._again.look()
        finally:
            self._writer.writing.release()
        if entry is not None:
            self._job.on_commit(entry)
