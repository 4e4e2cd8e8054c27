"""The modes in which a table or a feed runs, and what batch and stream do differently, in the only module that may ask which of the two it runs in.

In batch Spark silently drops ``withWatermark``, and in both modes ``dropDuplicates`` keeps a copy by chance.
The functions here have one meaning in both modes, so that everything above is written once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.fold import Fold, Shell, replayed
from strandline.core.kind import Lateness, moved

Seen: TypeAlias = tuple[DataFrame, str, Lateness]
"""The rows of a source, the column with their event time, and their lateness."""

_closed_ms: ContextVar[int] = ContextVar("closed_ms", default=0)


@contextmanager
def closed(until_ms: int) -> Iterator[None]:
    """Take all time up to a moment as over, where a batch computes rows in the block: what is ordered of a silent source.

    A stream has that moment as the watermark of a batch, and emits by it what its state waits for.
    """
    token = _closed_ms.set(until_ms)
    try:
        yield
    finally:
        _closed_ms.reset(token)


def watermarked(rows: DataFrame, time: str, lateness: Lateness) -> DataFrame:
    """Let state wait for every row that the lateness admits."""
    return rows.withWatermark(time, lateness.delay_text)


def fence(rows: DataFrame, name: str) -> DataFrame:
    """Keep Spark from moving later filters below the watermark.

    Spark pushes a filter through the watermark. If a table then leaves out log-outs, only log-ins move the watermark,
    and the stream calls fewer rows final than the batch, which reads all of them. Spark pushes nothing through an
    observation, because that would change what is observed. The rule cannot be excluded (tried).
    """
    return rows.observe(name, F.count(F.lit(1)).alias("rows"))


def filters_below_time(rows: DataFrame) -> bool:
    """Return whether Spark would filter rows before they move the watermark.

    A fence makes Spark read every column of a source, so it is set only where it is needed.
    """
    _, *below = explained(rows).split("EventTimeWatermark ")
    # Below a watermark the plan is one line of operators down to the source.
    return any(" Filter " in operators.partition("StreamingRelation")[0] for operators in below)


def explained(rows: DataFrame) -> str:
    """Return the physical plan that ``explain`` would print."""
    jvm: Any = rows.sparkSession.sparkContext._jvm  # noqa: SLF001  # explain itself goes this way
    utils = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    return str(utils.explainString(rows._jdf.queryExecution(), "simple"))  # noqa: SLF001  # as above


def first_copies(rows: DataFrame, same: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Keep the first row in ``order`` of those that agree in ``same``.

    Why a stream sorts inside its partitions: Spark's operator keeps whichever copy leaves the shuffle
    first, which is chance on more than one machine. Sorting the shuffled rows by three numbers just
    before makes the survivor a property of the data. Copies in an earlier batch come earlier in the order
    anyway, because batches follow bronze's commits. Spark refuses every sort on a stream, the local one
    too, so the session that starts such a query switches that check off (jobs/strandline/engine/runtime/spark_session.py).
    """
    if rows.isStreaming:
        return rows.repartition(*same).sortWithinPartitions(*order).dropDuplicates(list(same))
    nth = F.row_number().over(Window.partitionBy(*same).orderBy(*order))
    return rows.withColumn("_nth", nth).where(F.col("_nth") == 1).drop("_nth")


def final(rows: DataFrame, closes_at: str | None, seen: Sequence[Seen]) -> DataFrame:
    """Keep the rows that no admitted row can change any more.

    A stream in append mode emits exactly those. In batch the same watermark is computed from the rows that
    were read: for each source the newest event time less the delay, cut to milliseconds as Spark cuts its
    watermark, and for several sources the minimum, which is Spark's rule too.
    A row without a closing time is final from the start.
    """
    if rows.isStreaming or closes_at is None:
        return rows
    is_final = F.col(closes_at).isNull() | (F.col(closes_at) <= F.col("_bound"))
    return rows.join(F.broadcast(_bound(seen)), is_final, "inner").drop("_bound")


def folded(rows: DataFrame, fold: Fold, *, time: str, seen: Sequence[Seen] = ()) -> DataFrame:
    """Run a fold over rows, key by key.

    Args:
        rows: The rows to fold; in a stream they carry their watermark.
        fold: The step and its columns.
        time: The column with the event time.
        seen: The sources from which a batch computes the watermark, for a fold that emits final rows only; a stream
            has its own watermark.
    """
    named = rows.select(*_columns_of(fold, time), F.unix_micros(time).alias(AT))
    if rows.isStreaming:
        grouped = named.groupBy(*fold.by)
        return grouped.transformWithState(Shell(fold), fold.output, "Update", "EventTime")
    watermark = F.lit(None).cast("bigint")
    if seen:
        named = named.crossJoin(F.broadcast(_bound(seen)))
        watermark = F.coalesce(F.unix_micros("_bound"), F.lit(0))
    ordered = named.withColumn("watermark", watermark).repartition(*fold.by)
    return ordered.sortWithinPartitions(*fold.by, AT).mapInArrow(replayed(fold), fold.output)


AT = "at"
"""The microsecond of a row's event time, as a step reads it."""


def _columns_of(fold: Fold, time: str) -> list[Column]:
    """Return the columns that a step reads; an event time of the name ``at`` is there as microseconds alone, and moves the watermark.

    Raises:
        DefinitionError: Another column has that name.
    """
    if time != AT and AT in (*fold.by, *fold.reads):
        raise DefinitionError(
            f"a Fold reads a column {AT}, which is what the microseconds of the event time, {time}, are called",
            hint=f"give the column another name before: rows.withColumnRenamed('{AT}', 'since'); or name it as the time: "
            f"folded(…, time='{AT}').",
            column=AT,
        )
    columns = dict.fromkeys((*fold.by, *fold.reads, time))
    return [F.col(each).alias(f"_{AT}") if each == AT else F.col(each) for each in columns]


def _bound(seen: Sequence[Seen]) -> DataFrame:
    """Return the watermark that Spark would have after these rows, as the one row of ``_bound``."""
    bounds = [
        read.agg(moved(F.date_trunc("millisecond", F.max(time)), -lateness.delay).alias("_bound"))
        for read, time, lateness in seen
    ]
    # A source without rows has no watermark, and no row that waits for it is final, unless a close was ordered.
    found = F.when(F.count("_bound") == len(bounds), F.min("_bound"))
    if until_ms := _closed_ms.get():
        found = F.greatest(found, F.timestamp_millis(F.lit(until_ms)))
    return reduce(DataFrame.unionAll, bounds).agg(found.alias("_bound"))


# The ways to run a table or a feed; no business logic knows which one runs it.
#
# Tiny values rather than flags, so that a mode carries exactly what it needs and ``match`` proves that every reader of a
# mode handles all of them.
#
# A table has rows in the lake, and its modes are ``Mode``. A feed (jobs/strandline/core/table.py) goes from Kafka to Kafka without
# state, so it also runs in the two modes in which Spark answers event by event; its modes are ``FeedMode``. They are
# two unions because no table could run in real time: Spark has no sink there that commits rows to the lake.


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Compute once over all rows, and replace the table's rows atomically."""

    name: str = field(default="batch", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Read the backlog that is there now, then stop.

    Args:
        max_offsets: The most records in one batch; chosen from what is measured when absent.
    """

    max_offsets: int | None = None
    name: str = field(default="available-now", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Run always, a batch every so many seconds.

    Args:
        every: Seconds from the start of one batch to the start of the next.
        max_offsets: The most records in one batch; chosen from what is measured when absent.
    """

    every: float = 5.0
    max_offsets: int | None = None
    name: str = field(default="micro-batch", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTime:
    """Answer each event at once, by tasks that run for as long as a batch lasts.

    Args:
        every: Seconds from checkpoint to checkpoint. What was answered since the last one is answered again after a
            crash, and at each one the answers pause; at least five.
    """

    every: float = 300.0
    name: str = field(default="real-time", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Answer each event at once, by Spark's older engine: its tasks never end, and offsets are noted beside them.

    Args:
        every: Seconds from checkpoint to checkpoint.
    """

    every: float = 1.0
    name: str = field(default="continuous", init=False)


Mode: TypeAlias = Batch | AvailableNow | MicroBatch
FeedMode: TypeAlias = RealTime | Continuous | MicroBatch | AvailableNow
