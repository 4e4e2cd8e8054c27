"""What a counting feed did with the events of its epochs: how many it believed, why not the others, what its state dropped.

While the query runs, Spark's report of each epoch has these figures: those of the verdicts from an observation in the
plan, and those of the state from its operator. A report is lost with its process, and an epoch may be committed by then. Such
an epoch is counted again from Kafka: its range, its clock and the watermark below which it dropped events are in the
checkpoint.

What is dropped is counted where Spark drops it: what the parts of the rules found in events below the watermark. An event
that two rules look for counts twice, and one that no rule looks for not at all.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.feed import CountingFeed, topics_of
from strandline.core.lateness import DISORDERED
from strandline.core.received import RECEIVED
from strandline.core.table import Judged
from strandline.core.verdict import good_rows, judged
from strandline.engine.kafka.slices import Bounds, Positions
from strandline.engine.pipeline.ingest import by_topic, received
from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import epoch

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
        good_rows(rows[table.id]).where(F.col(table.event_at) <= late) if table.id in rows else None
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
