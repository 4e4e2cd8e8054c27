"""Accounting for a micro-batch before it is committed, exactly, also after a crash.

Everything is taken from what survives one: the range from Spark's offset log, the rows in it from the source
table's log, good and bad rows from the batch itself. What remains are duplicates and rows that Spark's
state refused as late, which Spark tells only after the batch, too late for the commit and lost in a crash.
So the refused ones are computed. The oldest arrival in the range stands in the source's statistics; when
even that lies after the watermark, none was refused, which is the law's normal case and costs nothing.
Otherwise the range is read once more and the rows below the watermark are counted.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Layer, Table
from jobs.core.verdict import judged
from jobs.run.checkpoint import Planned, stream_id
from jobs.run.lake import Lake
from jobs.run.ledger import Added, Entry
from jobs.run.meter import code_version

Parts = Sequence[tuple[int, Added]]


def opened(table: Table, lake: Lake, plan: Planned, mode: str) -> tuple[Entry, Parts]:
    """Begin the entry of a batch with what is known before it runs."""
    (source,) = table.upstream
    parts = plan.input(lake.table(source))
    entry = Entry(
        table=table.id,
        mode=mode,
        stream=stream_id(lake.checkpoint(table)) or "",
        batch=plan.number,
        source=source.id,
        versions=(parts[0][0], parts[-1][0]) if parts else None,
        read=sum(part.rows for _, part in parts),
        watermark=_text(plan.watermark_ms),
        code=code_version(table),
    )
    return entry, parts


def dropped(spark: SparkSession, table: Table, plan: Planned, parts: Parts) -> int:
    """Count the rows that the state refused because they lie below the watermark."""
    if not plan.late_ms or not parts:
        return 0
    if _oldest(table, parts) > plan.late_ms:
        return 0
    files = [file for _, part in parts for file in part.files]
    return _below(spark.read.parquet(*files), table, plan.late_ms)


def _oldest(table: Table, parts: Parts) -> float:
    """Return a bound, in milliseconds, that no row's time lies below; from statistics alone."""
    silver = _is_silver(table)
    columns = ("_arrived_at", "_ingested_at") if silver else (_time(table),)
    lowest = [part.lowest.get(column) for _, part in parts for column in columns]
    known = [datetime.fromisoformat(moment) for moment in lowest if moment]
    if len(known) < len(lowest):
        return 0.0
    slack = table.lateness.late if silver else timedelta(0)
    return (min(known) - slack).timestamp() * 1000


def _below(rows: DataFrame, table: Table, late_ms: int) -> int:
    """Count by the same comparison that Spark makes: at the watermark is too late."""
    if _is_silver(table):
        moment = judged(rows, table).select(F.col("_time").alias("moment"))
    elif table.window:
        moment = rows.select(F.window(_time(table), table.window)["end"].alias("moment"))
    else:
        moment = rows.select(F.col(_time(table)).alias("moment"))
    return moment.where(F.col("moment") <= F.timestamp_millis(F.lit(late_ms))).count()


def _is_silver(table: Table) -> bool:
    return table.layer is Layer.SILVER


def _time(table: Table) -> str:
    (source,) = table.upstream
    return str(source.event_at)


def _text(watermark_ms: int) -> str | None:
    if not watermark_ms:
        return None
    return datetime.fromtimestamp(watermark_ms / 1000, tz=UTC).isoformat()
