"""Starting a table's streaming query: silver as one forked query, gold as Spark's own stateful operators.

Every source is read from ``startingVersion=0``: the initial snapshot of a Delta source comes in the order of
files, not of commits, and with a watermark that loses rows. Only a new stream over a source that was put right
(a backfill, a promotion) begins with the snapshot, all of it in one batch, in which no watermark has moved yet.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.core.errors import DefinitionError
from jobs.core.received import ORDER, QUARANTINE
from jobs.core.stateful import fence, filters_below_time, final, first_copies, watermarked
from jobs.core.table import Speaks, Table
from jobs.core.verdict import DUPLICATE_OF, good_rows, judged
from jobs.run import delta
from jobs.run.account import dropped, opened
from jobs.run.checkpoint import (
    begin_whole,
    begins_whole,
    is_ahead,
    is_idle,
    is_new,
    planned,
    stream_id,
)
from jobs.run.fork import Fork
from jobs.run.gates import refuse_behind
from jobs.run.guard import Guard
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, last_entry, was_put_right
from jobs.run.lookup import beside, unknown
from jobs.run.meter import Meter
from jobs.run.moved import settle
from jobs.run.session import for_rows_alone, for_sorted_state
from jobs.run.stock import Stock
from jobs.run.windows import Windows

EVERYTHING = 2**31 - 1

Tell = Callable[[Entry], None]
Write = Callable[[DataFrame, int], None]


class Writer:
    """Writes the micro-batches of one table; Spark calls it, perhaps twice with the same batch.

    Whether a batch was written is answered by the newest ledger entry: one writer a table means that nothing
    can be committed between the question and the answer. A batch that was written is consumed all the
    same, because that is what brings the query's state forward.
    """

    def __init__(
        self, table: Table, lake: Lake, mode: str, tell: Tell, guard: Guard | None
    ) -> None:
        """Prepare to write; ``tell`` hears of every commit, and ``guard`` is asked before it, if there is one."""
        self._table = table
        self._lake = lake
        self._mode = mode
        self._tell = tell
        self._guard = guard
        self._windows = Windows(table, lake.table(table))
        self._static: Stock | None = None
        self.error: Exception | None = None
        self.writing = threading.Lock()
        """Held while a batch is written, so that what it has looked up is not looked up again meanwhile."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch, unless it was written."""
        with self.writing:
            self._write(rows, number)

    def _write(self, rows: DataFrame, number: int) -> None:
        try:
            if self._has(self._lake.table(self._table), number):
                if self._guard:  # killed before it could say so
                    self._guard.passed(str(stream_id(self._lake.checkpoint(self._table))), number)
                rows.write.format("noop").mode("overwrite").save()
                return
            refuse_behind(self._table, self._lake)
            entry = self._written(rows, number)
        except Exception as error:
            self.error = error  # Spark hands on no more than its text
            raise
        if entry is not None:
            self._tell(entry)

    def _written(self, rows: DataFrame, number: int) -> Entry | None:
        spark, table, lake = rows.sparkSession, self._table, self._lake
        meter = Meter(spark)
        plan = planned(lake.checkpoint(table), number)
        entry, parts = opened(table, lake, plan, self._mode)
        lost = partial(dropped, spark, table, plan, parts)
        path = lake.table(table)
        if table.judges:
            quarantine = lake.quarantine(table)
            fork = Fork(table=table, path=path, quarantine=quarantine, guard=self._guard)
            return fork.write(
                rows,
                lambda good, held: entry.settled(good=good, held=held, dropped=lost()),
                meter,
                held_already=self._has(quarantine, number),
            )
        if table.looks_up and self._static is None:
            self._static = Stock.of(spark, table.looks_up.source, lake)
        write = self._windows.change if table.rewrites else self._windows.append
        with beside(spark, table, lake, rows, self._static) as (found, looked):

            def settle() -> Entry:
                refused = lost()
                here = replace(entry, looked=looked)
                return here.settled(good=entry.read - refused, held={}, dropped=refused)

            return write(found, settle, meter)

    def _has(self, path: Path, number: int) -> bool:
        newest = last_entry(path)
        if newest is None:
            return False
        return (
            newest[1].stream == stream_id(self._lake.checkpoint(self._table))
            and newest[1].batch >= number
        )


def start(
    spark: SparkSession, table: Table, lake: Lake, writer: Write, every: float | None
) -> StreamingQuery:
    """Start the table's query.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: Where.
        writer: Writes the batches.
        every: Seconds from batch to batch; what is there now, and then the end, when None.

    Raises:
        DefinitionError: Table and checkpoint do not belong together.
    """
    refuse_strangers(table, lake)
    settle(lake.checkpoint(table))
    session = _session(spark, table)
    whole = _begins_whole(table, lake)
    sources = [_followed(session, lake.table(source), whole=whole) for source in table.upstream]
    result = shaped(sources, table)
    if not table.judges and filters_below_time(result):
        result = shaped(sources, table, fenced=True)
    make(spark, table, lake, unknown(table, result))
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.id)
    mode = "update" if table.rewrites else "append"
    query = (
        result.writeStream.queryName(table.id)
        .outputMode(mode)
        .option("checkpointLocation", str(lake.checkpoint(table)))
        .foreachBatch(writer)
    )
    if every is None:
        return query.trigger(availableNow=True).start()
    return query.trigger(processingTime=f"{int(every * 1000)} milliseconds").start()


def shaped(sources: Sequence[DataFrame], table: Table, *, fenced: bool = False) -> DataFrame:
    """Return the table's rows from those of its sources, whichever mode reads them.

    Args:
        sources: The rows of each source.
        table: Silver or gold.
        fenced: Whether every row of a source must move its watermark, also one that the table leaves out.
    """
    if table.judges:
        (events,) = sources
        verdicts = watermarked(judged(events, table), "_time", table.lateness)
        return first_copies(verdicts, DUPLICATE_OF, ORDER)
    if table.transform is None:
        message = f"{table.id} lacks its function"
        raise TypeError(message)
    seen = [
        (rows, _event_at(source), source.lateness)
        for rows, source in zip(sources, table.upstream, strict=True)
    ]
    timed = [watermarked(*each) for each in seen]
    if fenced:
        timed = [fence(rows, f"seen {number}") for number, rows in enumerate(timed)]
    answers = table.transform(*timed)
    if table.speaks is Speaks.ON_CLOSE:
        return final(answers, table.closes_at, seen)
    return answers


def speaks_of_time(table: Table) -> bool:
    """Tell whether a table says something because time has passed, and not only because rows came."""
    return not table.judges and table.speaks in {Speaks.ON_CLOSE, Speaks.AS_SETTLED}


def is_settled(table: Table, lake: Lake) -> bool:
    """Tell whether a table's stream has ended all batches that it planned, and those that they ask for."""
    return is_idle(lake.checkpoint(table), speaks_of_time=speaks_of_time(table))


def _session(spark: SparkSession, table: Table) -> SparkSession:
    if table.judges:
        return for_sorted_state(spark)
    return spark if speaks_of_time(table) else for_rows_alone(spark)


def _begins_whole(table: Table, lake: Lake) -> bool:
    """Tell whether a stream takes its sources as they stand, since what was put right in them was no append."""
    checkpoint = lake.checkpoint(table)
    if is_new(checkpoint) and any(was_put_right(lake.table(s)) for s in table.upstream):
        begin_whole(checkpoint)
    return begins_whole(checkpoint)


def _followed(spark: SparkSession, path: Path, *, whole: bool) -> DataFrame:
    reader = spark.readStream.format("delta")
    return (
        (reader if whole else reader.option("startingVersion", 0))
        .option("maxFilesPerTrigger", EVERYTHING)
        .option("skipChangeCommits", "true")  # a backfill's rows were read before, as they were
        .load(str(path))
    )


def _event_at(source: Table) -> str:
    if source.event_at is None:
        message = f"{source.id} lacks its event time"
        raise TypeError(message)
    return source.event_at


def make(spark: SparkSession, table: Table, lake: Lake, result: DataFrame) -> None:
    """Make the table and its quarantine unless they are there."""
    if table.judges:
        delta.create(
            spark,
            lake.quarantine(table),
            QUARANTINE,
            properties={
                "delta.dataSkippingStatsColumns": "_partition,_offset,_arrived_at,event_at",
            },
        )
        schema = good_rows(result).schema
        stats = f"{table.event_at},_partition,_offset,_arrived_at"
        delta.create(
            spark,
            lake.table(table),
            schema,
            properties={"delta.dataSkippingStatsColumns": stats},
        )
        return
    partition_by = [str(table.window_from)] if table.rewrites else []
    delta.create(spark, lake.table(table), result.schema, partition_by=partition_by)


def refuse_strangers(table: Table, lake: Lake) -> None:
    """See that a stream continues its own table.

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
