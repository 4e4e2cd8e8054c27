"""Starting and following the streaming query of a table: one query a table, in its own pool of Spark's scheduler."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.errors import DefinitionError
from strandline.core.table import Judged, Streamed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.flow.batch.batch_writer import Writer
from strandline.engine.flow.batch.event_joins import unknown
from strandline.engine.flow.batch.governor import ReplanError
from strandline.engine.flow.batch.joined_streams import refuse_losing_join
from strandline.engine.flow.plan import bring_back_unread, emits_over_time, framed, make
from strandline.engine.flow.preflight import is_as_it_was, refuse_strangers, refuse_unsafe
from strandline.engine.flow.spark_plan import output_mode
from strandline.engine.lake.lake import CHECKPOINTS, Lake
from strandline.engine.lake.mend_checkpoint import mend, play_again, settle
from strandline.engine.lake.spark_checkpoint import is_idle, is_new
from strandline.engine.runtime.outage import first_line

POLL = 0.05

Write = Callable[[DataFrame, int], None]


def start(  # noqa: PLR0913, PLR0917  # what runs, where, how often, and how much at once
    spark: SparkSession,
    table: Streamed,
    lake: Lake,
    writer: Write,
    every: float | None,
    files: Callable[[], Mapping[str, int]],
) -> StreamingQuery:
    """Start the table's query.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: Where.
        writer: Writes the batches.
        every: Seconds between two batches; None processes what is available and ends.
        files: Returns the most files of each source that a batch reads; called once the checkpoint is in order.

    Raises:
        DefinitionError: Table and checkpoint do not belong together, or the code of today cannot go on with the
            checkpoint; or the table is not made yet, and Spark would lose rows that its function joins.
        BrokenCheckpointError: A file of the checkpoint is damaged, and the ledger cannot replace it.
    """
    mend(table, lake)
    refuse_strangers(table, lake)
    settle(lake.checkpoint(table))
    if not is_settled(table, lake) and waiting(table, lake) == 0:
        play_again(lake.checkpoint(table))
    bring_back_unread(table, lake)
    with _refused_plan(table):
        run = framed(spark, table, lake, files())
    cleared = refuse_unsafe(table, lake, run)
    if not lake.exists(table) and cleared.joins:
        refuse_losing_join(table, run.sources, run.result)
    make(spark, table, lake, unknown(table, run.result))
    cleared.record(table, lake)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.id)
    query = (
        run.result.writeStream.queryName(table.id)
        .outputMode(output_mode(table))
        .option("checkpointLocation", str(lake.checkpoint(table)))
        .foreachBatch(writer)
    )
    trigger = (
        query.trigger(availableNow=True)
        if every is None
        else query.trigger(processingTime=f"{int(every * 1000)} milliseconds")
    )
    if isinstance(table, Judged) and not table.keeps_copies and is_new(lake.checkpoint(table)):
        lake.raise_to(CHECKPOINTS)
    with _refused_plan(table):
        return trigger.start()


@contextmanager
def _refused_plan(table: Table) -> Iterator[None]:
    """Say of which table Spark refuses the plan, and what to write instead.

    Raises:
        DefinitionError: It refuses it.
    """
    try:
        yield
    except AnalysisException as error:
        raise DefinitionError(
            f"Spark cannot stream {table.id}: {first_line(error)}",
            hint="write its function without what the sentence names, let a table below it compute a part, or declare it "
            "Recomputed, whose windows are computed by batches.",
            table=table.id,
        ) from error


def is_settled(table: Table, lake: Lake) -> bool:
    """Return whether a table's stream has ended all batches that it planned, and those that follow from them."""
    return is_idle(lake.checkpoint(table), emits_over_time=emits_over_time(table))


def would_do_nothing(table: Streamed, lake: Lake) -> bool:
    """Return whether a start with nothing to read would change nothing: the stream runs what it ran, and no batch follows.

    A start is a plan of Spark's and a query's threads. A run of the example's tables that had read all took 20 s of CPU with them, and 7
    without.

    Raises:
        DefinitionError: As ``start``.
        BrokenCheckpointError: As ``start``.
    """
    if is_new(lake.checkpoint(table)) or not lake.exists(table):
        return False
    if table.static or table.needs != table.upstream:  # a dimension may have come, with columns
        return False
    mend(table, lake)
    refuse_strangers(table, lake)
    if not (is_as_it_was(table, lake) and is_settled(table, lake)):
        return False
    return waiting(table, lake) == 0  # by the books, as commits may have been moved out of a log


def follow(
    query: StreamingQuery,
    writer: Writer,
    stopped: Callable[[], bool],
    beside: Callable[[], None] = lambda: None,
    poll: float = POLL,
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
        time.sleep(poll)
    try:
        failure = query.exception()
    except StreamingQueryException as error:
        failure = error
    if failure is None:
        return
    raise writer.cause(failure)


def follow_again(
    begin: Callable[[], StreamingQuery],
    writer: Writer,
    stopped: Callable[[], bool],
    beside: Callable[[StreamingQuery], None] = lambda _: None,
    poll: float = POLL,
) -> None:
    """Start a query and follow it, and again with another limit whenever a batch was withdrawn."""
    while True:
        query = begin()
        try:
            return follow(query, writer, stopped, partial(beside, query), poll)
        except ReplanError:
            writer.error = None
            if stopped():
                return None
