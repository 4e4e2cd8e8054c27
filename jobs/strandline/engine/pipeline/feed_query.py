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
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.feed import CountingFeed, EventFeed, Feed, topics_of
from strandline.core.modes import AvailableNow, Continuous, FeedMode, MicroBatch, RealTime
from strandline.core.parse_registered import Registered
from strandline.core.stateful import fence, watermarked
from strandline.core.table import Judged
from strandline.core.topic import Topic
from strandline.core.verdict import good_rows
from strandline.engine.kafka.slices import Positions
from strandline.engine.kafka.topic_log import java_options
from strandline.engine.pipeline.feed_counts import judged_at, observed
from strandline.engine.pipeline.ingest import by_topic
from strandline.engine.runtime.jvm import running_tasks
from strandline.engine.runtime.spark_session import for_any_rows, for_rows_alone
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.relocate_checkpoint import settle

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
        return good_rows(observed(judged_at(records, table, F.current_timestamp()), table))
    return good_rows(judged_at(records, table, F.lit(None).cast("timestamp")))


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
    """Return the limit that Spark is to keep; the slices of a feed that counts are cut by time (jobs/strandline/engine/pipeline/feed_ledger.py)."""
    return None if isinstance(feed, CountingFeed) else most_of(mode)


def _text(seconds: float) -> str:
    return f"{int(seconds * 1000)} milliseconds"
