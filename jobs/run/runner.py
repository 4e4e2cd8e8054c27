"""The one verb: ``run(table, mode, lake)``. The only module in which a mode decides anything."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import assert_never

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.core.errors import DefinitionError, LakeError
from jobs.core.modes import AvailableNow, Batch, MicroBatch, Mode
from jobs.core.table import Layer, Speaks, Table
from jobs.run import hidden
from jobs.run.afresh import Afresh
from jobs.run.batches import compute
from jobs.run.bronze import Intake
from jobs.run.gates import GateShutError, behind_source, refuse_behind, stops
from jobs.run.guard import Guard
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry
from jobs.run.lookup import Again
from jobs.run.patience import Patience, soon
from jobs.run.report import Report
from jobs.run.shadow import refuse_half_done
from jobs.run.streams import Writer, start
from jobs.run.weighing import weighing

POLL = 0.05
LOOK_AT_GATE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a run needs from the world: Spark, a clock, and for bronze an address of Kafka.

    ``locate`` finds Kafka anew where ``address`` does not say where it is: our own broker may come back at another port.
    """

    spark: SparkSession
    clock: Callable[[], datetime]
    address: str | None = None
    locate: Callable[[], str | None] = lambda: None
    options: Mapping[str, str] = field(default_factory=dict)

    def intake(self, table: Table, lake: Lake, mode: str) -> Intake:
        """Open the topic of a bronze table."""
        address = self.address or self.locate()
        if address is None:
            raise DefinitionError(
                f"{table.id} reads Kafka, but no broker is known",
                hint="start ours with `strandline up`, or set STRANDLINE_KAFKA.",
            )
        return Intake(
            self.spark,
            table,
            lake,
            address=address,
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
    tell: Callable[[Entry], None]
    stopped: Callable[[], bool]
    waits: Callable[[LakeError | None], None]
    holds: Callable[[int], None]
    patience: Patience


def run(  # noqa: PLR0913  # the one verb: what, how, where, with what, and those who listen
    table: Table,
    mode: Mode,
    lake: Lake,
    *,
    site: Site,
    tell: Callable[[Entry], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    waits: Callable[[LakeError | None], None] = lambda _: None,
    holds: Callable[[int], None] = lambda _: None,
) -> Report:
    """Run a table in a mode.

    Args:
        table: What to run.
        mode: How; ``MicroBatch`` goes on until ``stopped`` says so.
        lake: Where.
        site: With what.
        tell: Hears of each committed batch.
        stopped: Asked between batches.
        waits: Hears why a table that is always on waits, for a gate or for what is away, and None when it goes on.
        holds: Hears now and then how many rows the state of a table that is always on has.

    Returns:
        What was done.

    Raises:
        GateShutError: A batch is not believed, in a mode that ends.
        TransientError: Something that it needs is away, in a mode that ends.
    """
    report = Report(table=table.id, mode=mode.name)

    patience = Patience(waits, stopped)

    def heard(entry: Entry) -> None:
        report.add(entry)
        patience.well()
        tell(entry)

    refuse_without_source(table, lake)
    refuse_half_done(table, lake)
    job = _Job(table, lake, site, heard, stopped, waits, holds, patience)
    work = partial(_take_in if table.layer is Layer.BRONZE else _through_gates, job, mode)
    with lease(site.spark, table, lake):
        if table.layer is not Layer.BRONZE:
            hidden.learn(site.spark, table, lake)
        match mode:
            case MicroBatch():
                patience.outlast(work)
            case _:
                soon(work)
    return report


def _through_gates(job: _Job, mode: Mode) -> None:
    """Derive a table; one that is always on waits at a shut gate, and keeps its lease meanwhile."""
    while True:
        try:
            return _derive(job, mode)
        except GateShutError as error:
            match mode:
                case MicroBatch():
                    _wait_at_gate(job, error)
                case _:
                    raise
        if job.stopped():
            return None


def _wait_at_gate(job: _Job, error: GateShutError) -> None:
    job.waits(error)
    while stops(job.table, job.lake) and not job.stopped():
        time.sleep(LOOK_AT_GATE)
    job.waits(None)


def _take_in(job: _Job, mode: Mode) -> None:
    intake = job.site.intake(job.table, job.lake, mode.name)
    try:
        match mode:
            case Batch():
                _each(job, intake, None)
            case AvailableNow(max_offsets=limit):
                _each(job, intake, limit)
            case MicroBatch(every=every, max_offsets=limit):
                _always(job, every, lambda: _each(job, intake, limit))
            case _:
                assert_never(mode)
    finally:
        intake.close()


def _each(job: _Job, intake: Intake, limit: int | None) -> int:
    """Read what there is, and return how many commits it made."""
    commits = 0
    for entry in intake.catch_up(limit, job.stopped):
        job.tell(entry)
        commits += 1
    job.patience.well()
    return commits


def _again(job: _Job, afresh: Afresh) -> int:
    """Compute what changed, and return how many commits it made."""
    refuse_behind(job.table, job.lake)
    entry = afresh.catch_up()
    if entry is None:
        return 0
    job.tell(entry)
    return 1


def _always(job: _Job, every: float, work: Callable[[], int]) -> None:
    """Work until stopped, beginning every so many seconds."""
    while not job.stopped():
        due = time.monotonic() + every
        if not work():
            # Asking again without a pause would take Python from the queries beside this one.
            due = max(due, time.monotonic() + POLL)
        while time.monotonic() < due and not job.stopped():
            time.sleep(POLL)


def _derive(job: _Job, mode: Mode) -> None:
    spark, table, lake = job.site.spark, job.table, job.lake
    guard = Guard(table, lake, job.site.clock)
    writer = Writer(table, lake, mode.name, job.tell, guard)
    match mode:
        case Batch():
            job.tell(compute(spark, table, lake, guard))
        case AvailableNow() if table.speaks is Speaks.AFRESH:
            _again(job, Afresh(spark, table, lake, mode.name))
        case MicroBatch(every=every) if table.speaks is Speaks.AFRESH:
            afresh = Afresh(spark, table, lake, mode.name)
            _always(job, every, lambda: _again(job, afresh))
        case AvailableNow():
            follow(start(spark, table, lake, writer, None), writer, job.stopped)
            _look_again(job, writer, Again(spark, table, lake))
        case MicroBatch(every=every):
            again = Again(spark, table, lake)
            query = start(spark, table, lake, writer, every)
            weigh = weighing(query, job.holds)

            def beside() -> None:
                _look_again(job, writer, again)
                weigh()

            follow(query, writer, job.stopped, beside)
        case _:
            assert_never(mode)


def _look_again(job: _Job, writer: Writer, again: Again) -> None:
    """Put right what the static side has changed, between two batches."""
    if job.table.looks_up is None or behind_source(job.table, job.lake):
        return
    if not writer.writing.acquire(blocking=False):
        return
    try:
        entry = again.look()
    finally:
        writer.writing.release()
    if entry is not None:
        job.tell(entry)


def follow(
    query: StreamingQuery,
    writer: Writer,
    stopped: Callable[[], bool],
    beside: Callable[[], None] = lambda: None,
) -> None:
    """Wait for a query without blocking inside py4j, so that a signal is heard at once.

    A query is stopped between batches: interrupting one makes Spark print long stack traces and wastes the
    work, though it would lose nothing.
    """
    while query.isActive:
        if stopped() and not query.status["isTriggerActive"]:
            query.stop()
            return
        try:
            beside()
        except BaseException:
            query.stop()  # or it would write on without a lease
            raise
        time.sleep(POLL)
    try:
        failure = query.exception()
    except StreamingQueryException as error:
        failure = error
    if failure is None:
        return
    if isinstance(writer.error, LakeError):
        raise writer.error
    raise failure


def refuse_without_source(table: Table, lake: Lake) -> None:
    """See that there is something to read.

    Raises:
        DefinitionError: A table that this one reads was never made.
    """
    for source in table.upstream:
        if not lake.exists(source):
            raise DefinitionError(
                f"{table.id} reads {source.id}, which does not exist in {lake.root} yet",
                hint=f"run them in order: `strandline run {source.id} {table.id}`.",
                table=table.id,
                source=source.id,
            )
