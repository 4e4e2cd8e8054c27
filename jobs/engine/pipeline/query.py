"""Starting and following the streaming query of a table: one query a table, in its own pool of Spark's scheduler.

Every source is read from ``startingVersion=0``: the initial snapshot of a Delta source comes in the order of
files, not of commits, and with a watermark that loses rows. Only a new stream over a source whose past was computed
again (a backfill, a promotion), or whose first files are gone (jobs/engine/storage/dead_files.py), begins with the snapshot,
all of it in one batch, in which no watermark has moved yet.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.core.errors import DefinitionError, LakeError
from jobs.core.stateful import filters_below_time
from jobs.core.table import Judged, Streamed, Table, Upserted
from jobs.engine.pipeline.batch_writer import Writer
from jobs.engine.pipeline.dimension_lookup import unknown
from jobs.engine.pipeline.make_table import make
from jobs.engine.pipeline.plan import emits_over_time, shaped
from jobs.engine.pipeline.trigger_limit import ReplanError
from jobs.engine.runtime.spark_session import for_rows_alone, for_sorted_state
from jobs.engine.storage.cut_log import begins_at, bring_back
from jobs.engine.storage.dead_files import swept
from jobs.engine.storage.files_at_version import table_id
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import last_entry
from jobs.engine.storage.ledger_snapshot import sums_of
from jobs.engine.storage.place import Place
from jobs.engine.storage.relocate_checkpoint import settle
from jobs.engine.storage.spark_checkpoint import (
    begin_whole,
    begins_whole,
    is_ahead,
    is_idle,
    is_new,
    stream_id,
    unread_from,
)

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
        DefinitionError: Table and checkpoint do not belong together.
    """
    refuse_strangers(table, lake)
    settle(lake.checkpoint(table))
    _bring_back(table, lake)
    session = _session(spark, table)
    whole = _begins_whole(table, lake)
    most = files()
    sources = [
        _followed(session, lake.table(source), most[source.id], whole=whole)
        for source in table.upstream
    ]
    result = shaped(sources, table)
    if not isinstance(table, Judged) and filters_below_time(result):
        result = shaped(sources, table, fenced=True)
    make(spark, table, lake, unknown(table, result))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.id)
    mode = "update" if isinstance(table, Upserted) else "append"
    query = (
        result.writeStream.queryName(table.id)
        .outputMode(mode)
        .option("checkpointLocation", str(lake.checkpoint(table)))
        .foreachBatch(writer)
    )
    if every is None:
        return query.trigger(availableNow=True).start()
    return query.trigger(processingTime=f"{int(every * 1000)} milliseconds").start()


def is_settled(table: Table, lake: Lake) -> bool:
    """Return whether a table's stream has ended all batches that it planned, and those that follow from them."""
    return is_idle(lake.checkpoint(table), emits_over_time=emits_over_time(table))


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


def refuse_strangers(table: Table, lake: Lake) -> None:
    """Refuse a stream that would not continue its own table.

    Raises:
        DefinitionError: The table's rows or its source's were written by another stream or by batch, or are gone.
    """
    checkpoint = lake.checkpoint(table)
    found = last_entry(lake.table(table))
    newest = found[1] if found else None
    if newest is not None and newest.stream != stream_id(checkpoint):
        by_batch = newest.mode == "batch"
        writer = "a batch run" if by_batch else "a stream whose checkpoint is gone"
        raise DefinitionError(
            f"{table.id} was written by {writer}, so a stream has no state to continue it",
            hint="run it with `--mode batch`, or use another lake for the stream.",
            table=table.id,
        )
    for source in table.upstream:
        read = last_entry(lake.table(source))
        if read is not None and read[1].replaced and read[1].promoted is None:
            raise DefinitionError(
                f"{source.id} is replaced as a whole by batch runs, so no stream can follow it",
                hint=f"run {table.id} with `--mode batch` as well.",
                table=table.id,
                source=source.id,
            )
    sources = [lake.table(source) for source in table.upstream]
    if is_ahead(checkpoint, newest.batch if newest else None, sources):
        raise DefinitionError(
            f"{table.id} lacks rows that its stream's checkpoint says were written",
            hint=f"remove {lake.table(table)} and {checkpoint}, so that the table is made anew.",
            table=table.id,
        )


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
    if isinstance(writer.error, LakeError | ReplanError):
        raise writer.error
    raise failure


def follow_again(
    begin: Callable[[], StreamingQuery],
    writer: Writer,
    stopped: Callable[[], bool],
    beside: Callable[[StreamingQuery], None] = lambda _: None,
) -> None:
    """Start a query and follow it, and again with another limit whenever a batch was withdrawn."""
    while True:
        query = begin()
        try:
            return follow(query, writer, stopped, partial(beside, query))
        except ReplanError:
            writer.error = None
            if stopped():
                return None


def _session(spark: SparkSession, table: Table) -> SparkSession:
    if isinstance(table, Judged):
        return for_sorted_state(spark)
    return spark if emits_over_time(table) else for_rows_alone(spark)


def _bring_back(table: Table, lake: Lake) -> None:
    """Bring commits back into the logs of sources, which a stream has not read and which were moved out of them.

    Maintenance leaves those that a stream of the lake needs; this one is of a rebuild, or was brought back by an undo.
    """
    unread = unread_from(lake.checkpoint(table)) or {}
    for source in table.upstream:
        path = lake.table(source)
        if (position := unread.get(table_id(path))) is not None:
            bring_back(path, position.version)


def _begins_whole(table: Table, lake: Lake) -> bool:
    """Return whether a stream begins with a snapshot of its sources, because their past cannot be read as it was."""
    checkpoint = lake.checkpoint(table)
    if is_new(checkpoint) and any(map(_lacks_past, map(lake.table, table.upstream))):
        begin_whole(checkpoint)
    return begins_whole(checkpoint)


def _lacks_past(path: Place) -> bool:
    return sums_of(path).was_rewritten or swept(path).deletes or begins_at(path) > 0


def _followed(spark: SparkSession, path: Place, files: int, *, whole: bool) -> DataFrame:
    reader = spark.readStream.format("delta")
    return (
        (reader if whole else reader.option("startingVersion", 0))
        .option("maxFilesPerTrigger", files)
        .option("skipChangeCommits", "true")  # a backfill's rows were read before, as they were
        .load(str(path))
    )
