"""The backlog of a feed that counts, cut by time as bronze cuts it (jobs/engine/kafka/slices.py).

Spark's own limit reads of each partition a share of what waits there, so one whose records are all new is read hours ahead of
the others, the watermark follows it, and the state drops the others' events. Spark runs a batch that is planned in its
checkpoint as it is. So as long as more waits than a batch may have, the next one is planned here, run alone, and what is
left is looked at again. What fits into one batch is left to Spark, which then reads all partitions up to the same moment; so
does it while it runs.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from jobs.core.feed import CountingFeed, topics_of
from jobs.engine.kafka.slices import Backlog, Positions
from jobs.engine.pipeline.ingest import by_topic
from jobs.engine.storage.place import Place
from jobs.engine.storage.spark_checkpoint import newest_done, newest_planned, plan_epoch

PARTITIONS = "spark.sql.shuffle.partitions"


def cut(  # noqa: PLR0913, PLR0917  # what, where, from where, how much
    spark: SparkSession,
    feed: CountingFeed,
    checkpoint: Place,
    backlog: Backlog,
    begins: Positions,
    most: int | None,
) -> bool:
    """Plan the next slice of a backlog that is more than a batch, and return whether a planned batch is to be run alone.

    Args:
        spark: The session in which the query runs.
        feed: The feed.
        checkpoint: Its checkpoint.
        backlog: Its topics.
        begins: The offsets that it reads next.
        most: The most records of a batch; None for any number.
    """
    if most is None:
        return False
    if newest_planned(checkpoint) != newest_done(checkpoint):
        return True  # by Spark or here, before the process ended; what comes after it is then seen
    ends = {part: end for part, (_, end) in backlog.bounds().items()}
    start = {part: begins.get(part, 0) for part in ends}
    if sum(end - start[part] for part, end in ends.items()) <= most:
        return False
    stops = {**start, **backlog.slice(start, ends, most)}
    plan_epoch(checkpoint, _by_source(feed, stops), _conditions(spark), _now_ms())
    return True


def _by_source(feed: CountingFeed, stops: Positions) -> list[Mapping[str, Mapping[int, int]]]:
    """Return offsets for each source of the query: one a table, in their order."""
    names = ({topic.name for topic in topics_of(table)} for table in feed.of)
    return [by_topic({part: at for part, at in stops.items() if part[0] in own}) for own in names]


def _conditions(spark: SparkSession) -> str:
    """Return the settings that Spark writes into the plan of a first batch."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # Spark has no other way to them
    made = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
    plan = json.loads(made.apply(0, 0, spark._jsparkSession.conf()).json())  # noqa: SLF001  # as above
    # Spark takes this one from a setting that a query makes in its own copy of the session; here it is not made yet.
    parts = {PARTITIONS: spark.conf.get(PARTITIONS)}
    plan["conf"] = {name: value for name, value in {**plan["conf"], **parts}.items() if value}
    return json.dumps(plan)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
