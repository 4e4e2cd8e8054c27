"""Starting the query of a feed: Kafka to Kafka, one plan in every mode.

Only the trigger differs, and what Spark checks before it starts. Real-time and continuous mode have a task for each
partition that runs for as long as the batch, so a Spark with fewer threads than partitions would leave some unread for
ever: ``slots`` says how many are needed, and the process that runs feeds starts a Spark of its own with as many.

These two modes have no state, so a feed that counts runs in micro-batches beside them (``mode_of``).

A record is JSON with the columns of the feed's function. Its key identifies it, and a header names the feed, by which
the ledger counts the records of each feed in a topic that several write to.

All modes write at least once: what was sent after the last checkpoint is sent again after a crash.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import DISORDERED
from strandline.core.parse_registered import Registered
from strandline.core.stateful import (
    AvailableNow,
    Continuous,
    FeedMode,
    MicroBatch,
    RealTime,
    fence,
    watermarked,
)
from strandline.core.table import CountingFeed, EventFeed, Feed, Judged, topics_of
from strandline.core.topic import RECEIVED, Topic
from strandline.core.verdict import good_rows, judged
from strandline.engine.flow.ingest import by_topic, received
from strandline.engine.kafka.slices import Bounds, Positions
from strandline.engine.kafka.topic_log import java_options
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.mend_checkpoint import settle
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import epoch
from strandline.engine.runtime.jvm import running_tasks
from strandline.engine.runtime.spark_session import for_any_rows, for_rows_alone

# What a counting feed did with the events of its epochs: how many it believed, why not the others, what its state dropped.
#
# While the query runs, Spark's report of each epoch has these figures: those of the verdicts from an observation in the
# plan, and those of the state from its operator. A report is lost with its process, and an epoch may be committed by then. Such
# an epoch is counted again from Kafka: its range, its clock and the watermark below which it dropped events are in the
# checkpoint.
#
# What is dropped is counted where Spark drops it: what the parts of the rules found in events below the watermark. An event
# that two rules look for counts twice, and one that no rule looks for not at all.


JUDGED = "judged "
"""Begins the name of the observation of a table's verdicts."""

ROWS = "rows"
TIMES = ("late", "early", "from_the_future", DISORDERED)
OTHERS = "other"
"""Reasons of payloads and of rules; each table has its own."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The figures of epochs."""

    rows: int = 0
    held: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0

    @property
    def good(self) -> int:
        """Return how many events were believed."""
        return self.rows - sum(self.held.values())

    def __add__(self, other: Self) -> "Counts":
        """Return the figures of both."""
        reasons = sorted({*self.held, *other.held})
        held = {why: self.held.get(why, 0) + other.held.get(why, 0) for why in reasons}
        return Counts(self.rows + other.rows, held, self.dropped + other.dropped)


def judged_at(records: DataFrame, table: Judged, seen_at: Column) -> DataFrame:
    """Judge records of Kafka as a table does that has read them at a moment.

    The moment is that of a clock that is ahead: what is beyond it moves no watermark. What arrived before are no rows of
    a commit, so nothing is called disordered; where the watermark is beyond such an event it is dropped, and counted.
    """
    known = {
        "_batch": F.lit(None).cast(RECEIVED["_batch"].dataType),
        "_ingested_at": seen_at,
        "_newest_before": F.lit(None).cast(RECEIVED["_newest_before"].dataType),
    }
    return judged(received(records).withColumns(known), table)


def observed(rows: DataFrame, table: Judged) -> DataFrame:
    """Let Spark's report of each epoch have the figures of judged rows."""
    first, *others = _figures()
    return rows.observe(JUDGED + table.id, first, *others)


def reported(query: StreamingQuery, after: int) -> dict[int, Counts]:
    """Return the figures of the epochs of a query after one, as far as its reports are there."""
    reports: Any = query._jsq.recentProgress()  # noqa: SLF001  # without reading all of them again, a hundred at a time
    found = {}
    for report in reversed(list(reports)):
        if report.batchId() <= after:
            break
        found[int(report.batchId())] = _of_report(json.loads(report.json()))
    return found


def counted(  # noqa: PLR0913  # what, which epoch, and Kafka
    spark: SparkSession,
    feed: CountingFeed,
    checkpoint: Place,
    number: int,
    *,
    begins: Positions,
    bounds: Bounds,
    kafka: Mapping[str, str],
) -> Counts:
    """Count an epoch again from Kafka.

    Args:
        spark: The session.
        feed: The feed.
        checkpoint: Its checkpoint, which has the epoch.
        number: The epoch.
        begins: Where the epoch began if it is the first of its checkpoint.
        bounds: What Kafka has; what has expired since is not counted.
        kafka: The options of Spark's Kafka client.
    """
    planned = epoch(checkpoint, number)
    ranges = {
        part: (max((planned.start or begins).get(part, first), first), planned.end[part])
        for part, (first, _) in bounds.items()
        if part in planned.end
    }
    ranges = {part: reach for part, reach in ranges.items() if reach[0] < reach[1]}
    seen_at = F.lit(datetime.fromtimestamp(planned.at_ms / 1000, tz=UTC))
    rows = {
        table.id: judged_at(_range(spark, table, ranges, kafka), table, seen_at)
        for table in feed.tables
        if any(part[0] in _names(table) for part in ranges)
    }
    verdicts = sum((_of_rows(each) for each in rows.values()), Counts())
    if not planned.late_ms or not rows:
        return verdicts
    late = F.timestamp_millis(F.lit(planned.late_ms))
    below = (
        good_rows(rows[table.id], table).where(F.col(table.event_at) <= late)
        if table.id in rows
        else None
        for table in feed.tables
    )
    return verdicts + Counts(dropped=feed.transform.waiting(list(below)).count())


def _figures() -> Iterator[Column]:
    why = F.get("_reasons", F.lit(0))
    yield F.count(F.lit(1)).alias(ROWS)
    for reason in TIMES:
        yield F.count_if(why == reason).alias(reason)
    yield F.count_if(~why.isin(*TIMES)).alias(OTHERS)


def _of_report(report: Mapping[str, Any]) -> Counts:
    verdicts = (
        figures
        for name, figures in report.get("observedMetrics", {}).items()
        if name.startswith(JUDGED)
    )
    dropped = sum(int(each["numRowsDroppedByWatermark"]) for each in report["stateOperators"])
    return sum(map(_of_figures, verdicts), Counts(dropped=dropped))


def _of_rows(rows: DataFrame) -> Counts:
    (figures,) = rows.agg(*_figures()).collect()
    return _of_figures(figures.asDict())


def _of_figures(figures: Mapping[str, Any]) -> Counts:
    held = {why: int(figures[why]) for why in (*TIMES, OTHERS) if figures.get(why)}
    return Counts(int(figures[ROWS] or 0), held)


def _names(table: Judged) -> set[str]:
    return {topic.name for topic in topics_of(table)}


def _range(
    spark: SparkSession,
    table: Judged,
    ranges: Mapping[tuple[str, int], tuple[int, int]],
    kafka: Mapping[str, str],
) -> DataFrame:
    own = {part: reach for part, reach in ranges.items() if part[0] in _names(table)}
    ends = by_topic({part: end for part, (_, end) in own.items()})
    return (
        spark.read.format("kafka")
        .options(**kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps({topic: sorted(parts) for topic, parts in ends.items()}))
        .option("startingOffsets", json.dumps(by_topic({p: at for p, (at, _) in own.items()})))
        .option("endingOffsets", json.dumps(ends))
        .option("includeHeaders", "true")
        .load()
    )


FEED = "feed"
"""The header with the feed's name."""

MAX_OFFSETS = 500_000
"""The most records of a micro-batch, unless another number is given."""

COUNTED_EVERY = 1.0
"""Seconds from batch to batch of a feed that counts beside others that answer each event, at least."""

PATIENCE = 60.0
"""Seconds in which the tasks of a query that was stopped must end."""

POLL = 0.01

MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
"""To the microsecond; Spark's default cuts a time to milliseconds."""


def start(  # noqa: PLR0913  # what, how, where, and Kafka
    spark: SparkSession,
    feed: Feed,
    mode: FeedMode,
    lake: Lake,
    *,
    kafka: dict[str, str],
    begins: Positions,
    once: bool = False,
) -> StreamingQuery:
    """Start a feed's query.

    Args:
        spark: The session.
        feed: What to run.
        mode: How.
        lake: Where its checkpoint is.
        kafka: The options of Spark's Kafka client.
        begins: Where it begins to read if its checkpoint has no batch yet.
        once: Whether it ends after the batch that is planned in its checkpoint.
    """
    settle(lake.checkpoint(feed))
    session = for_any_rows(spark) if isinstance(mode, Continuous) else for_rows_alone(spark)

    def rows(table: Judged) -> DataFrame:
        _refuse_registered(feed, topics_of(table))
        records = _records(session, topics_of(table), _most(feed, mode), kafka, begins)
        return believed(records, table, counts=isinstance(feed, CountingFeed))

    spark.sparkContext.setLocalProperty("spark.scheduler.pool", feed.id)
    query = (
        as_records(_transformed(feed, rows), feed)
        .writeStream.queryName(feed.id)
        .format("kafka")
        .options(**kafka)
        .option("topic", feed.to.name)
        .option("checkpointLocation", str(lake.checkpoint(feed)))
        .outputMode("update")
    )
    if once:
        return query.trigger(once=True).start()
    match mode:
        case RealTime(every=every):
            triggered: DataStreamWriter = query.trigger(realTime=_text(every))  # type: ignore[call-overload]  # not in its overloads
            return triggered.start()
        case Continuous(every=every):
            return query.trigger(continuous=_text(every)).start()
        case MicroBatch(every=every):
            return query.trigger(processingTime=_text(every)).start()
        case AvailableNow():
            return query.trigger(availableNow=True).start()
        case _:
            assert_never(mode)


def _refuse_registered(feed: Feed, topics: Sequence[Topic]) -> None:
    """Refuse topics whose schemas are in a registry: their ids are learned by bronze, and a feed does not wait for it.

    Raises:
        DefinitionError: There is one.
    """
    for topic in topics:
        if isinstance(topic.parse, Registered):
            raise DefinitionError(
                f"{feed.id} reads {topic.name}, whose schemas are in a registry",
                hint="raise alerts from topics that are JSON, Avro of one schema or CSV; silver reads any.",
                topic=topic.name,
            )


def stop(spark: SparkSession, feed: Feed, query: StreamingQuery) -> None:
    """Stop a feed's query, and return when it judges no event any more.

    Spark's ``stop`` asks the tasks to end and does not wait: for 20 ms, and longer on a busy machine, they went on
    reading. An event that came then was judged by the former rules and, beyond the offset from which the new ones hold,
    by those as well: two alerts with two ids (tests/faults/test_rules_switched.py, on a busy machine).

    Raises:
        TransientError: A task does not end.
    """
    query.stop()
    deadline = time.monotonic() + PATIENCE
    while running_tasks(spark, feed.id):
        if time.monotonic() > deadline:
            raise TransientError(
                f"a task of {feed.id} goes on {PATIENCE:.0f} s after it was stopped",
                hint="start it again: it goes on at its checkpoint.",
                feed=feed.id,
            )
        time.sleep(POLL)


def mode_of(feed: Feed, mode: FeedMode) -> FeedMode:
    """Return the mode in which a feed runs where the others run in a given one."""
    match feed, mode:
        case CountingFeed(), RealTime() | Continuous():
            return MicroBatch(every=COUNTED_EVERY)
        case _:
            return mode


def slots(mode: FeedMode, partitions: int) -> int:
    """Return how many threads Spark needs for feeds that read so many partitions."""
    match mode:
        case RealTime() | Continuous():
            return partitions + 2  # beside them the ledger is committed, and threshold rules count
        case MicroBatch() | AvailableNow():
            return 0
        case _:
            assert_never(mode)


def ends(mode: FeedMode) -> bool:
    """Return whether a query ends by itself."""
    match mode:
        case AvailableNow():
            return True
        case RealTime() | Continuous() | MicroBatch():
            return False
        case _:
            assert_never(mode)


def client(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka client for an address."""
    return {"kafka.bootstrap.servers": address, **java_options(options)}


def believed(records: DataFrame, table: Judged, *, counts: bool = False) -> DataFrame:
    """Judge records of Kafka as a table does, and return the believed rows.

    Args:
        records: The records.
        table: The table.
        counts: Whether they move a watermark: then the clock of the batch says what is ahead, and Spark's report of it how
            many were believed.
    """
    if counts:
        # Held by a reference: in generated code the clock would be a figure, and each batch of a second be compiled anew.
        clock = F.call_function("batch_value", F.current_timestamp())
        return good_rows(observed(judged_at(records, table, clock), table), table)
    return good_rows(judged_at(records, table, F.lit(None).cast("timestamp")), table)


def as_records(rows: DataFrame, feed: Feed) -> DataFrame:
    """Return rows as records of Kafka."""
    value = F.to_json(F.struct("*"), {"timestampFormat": MOMENT})
    named = F.struct(F.lit(FEED).alias("key"), F.lit(feed.id).cast("binary").alias("value"))
    return rows.select(
        F.col(feed.key).alias("key"), value.alias("value"), F.array(named).alias("headers")
    )


def _transformed(feed: Feed, rows: Callable[[Judged], DataFrame]) -> DataFrame:
    """Return the columns of a feed's records, from what reads the believed rows of a table."""
    match feed:
        case EventFeed(of=table):
            return feed.transform(rows(table))
        case CountingFeed(of=tables):
            return feed.transform([_timed(rows(table), table) for table in tables])
        case _:
            raise TypeError(feed.id)


def _timed(rows: DataFrame, table: Judged) -> DataFrame:
    """Let every believed row move the watermark, also those of which no rule finds anything."""
    return fence(watermarked(rows, table.event_at, table.lateness), table.id)


def _records(
    session: SparkSession,
    topics: Sequence[Topic],
    most: int | None,
    kafka: dict[str, str],
    begins: Positions,
) -> DataFrame:
    names = [topic.name for topic in topics]
    own = {part: offset for part, offset in begins.items() if part[0] in names}
    reader = (
        session.readStream.format("kafka")
        .options(**kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ",".join(names))
        .option("startingOffsets", json.dumps(by_topic(own)))
        .option("includeHeaders", "true")
    )
    if most is not None:
        reader = reader.option("maxOffsetsPerTrigger", most)
    return reader.load()


def most_of(mode: FeedMode) -> int | None:
    """Return the most records that a batch should have."""
    match mode:
        case MicroBatch(max_offsets=most):
            return most or MAX_OFFSETS
        case AvailableNow(max_offsets=most):
            return most
        case RealTime() | Continuous():
            return None
        case _:
            assert_never(mode)


def _most(feed: Feed, mode: FeedMode) -> int | None:
    """Return the limit that Spark is to keep; the slices of a feed that counts are cut by time (jobs/strandline/engine/flow/feed_ledger.py)."""
    return None if isinstance(feed, CountingFeed) else most_of(mode)


def _text(seconds: float) -> str:
    return f"{int(seconds * 1000)} milliseconds"
