"""The one verb: ``run(table, mode, lake)``. The only module in which a mode decides anything."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.formats.writer_schema import schemas_from
from strandline.core.modes import AvailableNow, Batch, MicroBatch, Mode
from strandline.core.table import Computed, Ingested, Recomputed, Streamed, Table
from strandline.engine.accounting.table_books import close_or_reason
from strandline.engine.flow.batch.batch_writer import Writer
from strandline.engine.flow.batch.dimension_lookup import Again
from strandline.engine.flow.batch.governor import Governor
from strandline.engine.flow.batch.static_join import Pinned, Taker, joining
from strandline.engine.flow.batch.trigger_limit import TriggerLimit
from strandline.engine.flow.foreign_text import of_function, sentences
from strandline.engine.flow.ingest import Intake
from strandline.engine.flow.lineage import column_lineage
from strandline.engine.flow.lineage.run_recorder import Recorder, Wrote, unrecorded
from strandline.engine.flow.preflight import refuse_without_source
from strandline.engine.flow.query import follow_again, start
from strandline.engine.flow.recompute import Afresh, compute
from strandline.engine.flow.running import Lookout, Report, Running, weighing
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.gates.batch_check import Guard
from strandline.engine.gates.gate_files import GateShutError, stops
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.read.open_table import lost_file
from strandline.engine.lake.retired import refuse_retired
from strandline.engine.lake.shelf.schema_shelf import Shelf
from strandline.engine.runtime.jvm import Heap
from strandline.engine.runtime.outage import Patience, soon

POLL = 0.05
LOOK_AT_GATE = 1.0
GROUP = "spark.jobGroup.id"
"""Spark's name for what a thread's jobs belong to; those of a query have its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a run needs from outside: Spark, a clock, and for bronze an address of Kafka.

    ``locate`` finds Kafka again where there is no ``address``: the lake's own broker may return at another port.
    ``record`` records runs for a catalog of lineage. ``says`` is called with what a person should read. ``poll`` are the seconds between two looks at a table: beside two hundred
    others a look costs as much as its work.
    """

    spark: SparkSession
    clock: Callable[[], datetime]
    address: str | None = None
    locate: Callable[[], str | None] = lambda: None
    options: Mapping[str, str] = field(default_factory=dict)
    record: Recorder = unrecorded
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
            address=self.kafka(table.id),
            options=self.options,
            mode=mode,
            clock=self.clock,
        )


@dataclass(frozen=True, slots=True)
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

    def governor(self, fixed: int | None) -> Governor:
        return Governor(self.table, self.lake, Heap(self.site.spark), fixed=fixed)


def run(  # noqa: PLR0913  # the one verb: what, how, where, with what, and five callbacks
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
    taker = Taker(site.spark, table, lake, site.clock, site.says)
    job = _Job(
        table, lake, site, committed, stopped, waits, weighed, patience, gives_way, at, taker
    )
    if isinstance(table, Ingested):
        work = partial(_take_in, job, table, mode)
    else:
        work = partial(_through_gates, job, table, mode)
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
            column_lineage.learn(site.spark, table, lake)
        match mode:
            case MicroBatch():
                patience.outlast(work)
            case _:
                soon(work)
                report.books_open = close_or_reason(table, lake)
    return report


def _through_gates(job: _Job, table: Computed, mode: Mode) -> None:
    """Derive a table; an always-on table waits at a shut gate and keeps its lease."""
    while True:
        try:
            with _naming_lost_files(table, job.lake):
                return _derive(job, table, mode)
        except GateShutError as error:
            match mode:
                case MicroBatch():
                    _wait_at_gate(job, error)
                case _:
                    raise
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


def _take_in(job: _Job, table: Ingested, mode: Mode) -> None:
    intake = job.site.intake(table, job.lake, mode.name)
    try:
        match mode:
            case Batch():
                _each(job, intake, None)
            case AvailableNow(max_offsets=limit):
                _each(job, intake, job.governor(limit))
            case MicroBatch(every=every, max_offsets=limit):
                governor = job.governor(limit)
                _always(job, every, lambda: _each(job, intake, governor))
            case _:
                assert_never(mode)
    finally:
        intake.close()


def _each(job: _Job, intake: Intake, governor: Governor | None) -> int:
    """Read what is available and return the number of commits."""
    commits = 0
    for entry in intake.catch_up(governor, job.stopped):
        job.on_commit(entry)
        commits += 1
    return commits


def _again(job: _Job, afresh: Afresh) -> int:
    """Recompute what changed and return the number of commits."""
    job.taker.look()
    if (entry := afresh.catch_up()) is None:
        return 0
    job.on_commit(entry)
    return 1


def _always(job: _Job, every: float, work: Callable[[], int]) -> None:
    """Work until stopped, beginning every so many seconds."""
    job.running.group = job.table.id
    job.site.spark.sparkContext.setLocalProperty(GROUP, job.running.group)
    while not job.stopped():
        due = time.monotonic() + every
        with _running(job):
            commits = work()
        job.patience.well()
        if not commits:
            # Asking again without a pause would take Python from the queries beside this one.
            due = max(due, time.monotonic() + POLL)
        while (time.monotonic() < due or job.gives_way()) and not job.stopped():
            time.sleep(job.site.poll)


@contextmanager
def _running(job: _Job, batch: int | None = None) -> Iterator[None]:
    job.running.handed(batch)
    try:
        yield
    finally:
        job.running.ends()


def _derive(job: _Job, table: Computed, mode: Mode) -> None:
    guard = Guard(table, job.lake, job.site.clock)
    job.taker.take()
    match mode:
        case Batch():
            job.on_commit(compute(job.site.spark, table, job.lake, guard))
        case AvailableNow() | MicroBatch():
            if isinstance(table, Recomputed):
                _recompute(job, table, mode)
            else:
                _stream(job, table, mode, guard)
        case _:
            assert_never(mode)


def _recompute(job: _Job, table: Recomputed, mode: AvailableNow | MicroBatch) -> None:
    """Follow the changes of the sources."""
    afresh = Afresh(job.site.spark, table, job.lake, mode.name)
    match mode:
        case AvailableNow():
            _again(job, afresh)
        case MicroBatch(every=every):
            _always(job, every, lambda: _again(job, afresh))
        case _:
            assert_never(mode)


def _stream(job: _Job, table: Streamed, mode: AvailableNow | MicroBatch, guard: Guard) -> None:
    """Follow the rows that are appended to the sources."""
    spark, lake = job.site.spark, job.lake
    limit = TriggerLimit(table, lake, job.governor(mode.max_offsets))
    pinned = Pinned(table, lake)
    writer = Writer(table, lake, mode.name, job.on_commit, guard, limit, pinned)
    again = Again(spark, table, lake)

    def write(rows: DataFrame, number: int) -> None:
        with _running(job, number):
            writer(rows, number)

    def begin(every: float | None) -> StreamingQuery:
        pinned.pin()
        return start(spark, table, lake, write, every, limit.files)

    match mode:
        case AvailableNow():
            limit.begin_large()
            follow_again(lambda: begin(None), writer, job.stopped)
            _look_again(job, writer, again)
        case MicroBatch(every=every):
            due, weigh = time.monotonic(), weighing(job.holds)
            lookout = Lookout(spark, job.running)

            def beside(query: StreamingQuery) -> None:
                nonlocal due
                if time.monotonic() >= due:
                    due = time.monotonic() + lake.pause(job.site.poll)
                    job.taker.look()
                    _look_again(job, writer, again)
                weigh(query)
                lookout.look(query)

            try:
                follow_again(lambda: begin(every), writer, job.stopped, beside, job.site.poll)
            finally:
                job.running.ends()
        case _:
            assert_never(mode)


def _look_again(job: _Job, writer: Writer, again: Again) -> None:
    """Update rows whose dimension has changed, between two batches."""
    if not writer.writing.acquire(blocking=False):
        return
    try:
        entry = again.look()
    finally:
        writer.writing.release()
    if entry is not None:
        job.on_commit(entry)
