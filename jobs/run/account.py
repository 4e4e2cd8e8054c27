"""Accounting for a micro-batch before it is committed, exactly, also after a crash.

Everything is taken from what survives one: the range from Spark's offset log, the rows in it from the source
table's log, good and bad rows from the batch itself. What remains are duplicates and rows that Spark's
state refused as late, which Spark tells only after the batch, too late for the commit and lost in a crash.
So the refused ones are computed. The oldest arrival in the range stands in the source's statistics; when
even that lies after the watermark, none was refused, which is the law's normal case and costs nothing.
Otherwise the range is read once more and the rows below the watermark are counted.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.received import RECEIVED
from jobs.core.table import Table
from jobs.core.verdict import judged
from jobs.run.checkpoint import Planned, stream_id
from jobs.run.files import Added
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.meter import code_version

Parts = Mapping[str, Sequence[tuple[int, Added]]]
"""By source: the versions that a batch reads, and what each adds."""


def opened(table: Table, lake: Lake, plan: Planned, mode: str) -> tuple[Entry, Parts]:
    """Begin the entry of a batch with what is known before it runs."""
    found = {source.id: plan.input(lake.table(source)) for source in table.upstream}
    parts = {source: versions for source, versions in found.items() if versions}
    entry = Entry(
        table=table.id,
        mode=mode,
        stream=stream_id(lake.checkpoint(table)) or "",
        batch=plan.number,
        source=", ".join(found),
        versions={source: (read[0][0], read[-1][0]) for source, read in parts.items()},
        read=sum(part.rows for read in parts.values() for _, part in read),
        whole=plan.whole,
        watermark=_text(plan.watermark_ms),
        code=code_version(table),
    )
    return entry, parts


def dropped(spark: SparkSession, table: Table, plan: Planned, parts: Parts) -> int:
    """Count the rows that the state refused because they lie below the watermark."""
    if not plan.late_ms:
        return 0
    lost = 0
    for source in table.upstream:
        read = [part for _, part in parts.get(source.id, ())]
        if read and _oldest(table, source, read) <= plan.late_ms:
            files = [file for part in read for file in part.files]
            # Files of bronze that are older than one of its columns lie beside newer ones.
            reader = spark.read.schema(RECEIVED) if table.judges else spark.read
            lost += _below(reader.parquet(*files), table, source, plan.late_ms)
    return lost


def _oldest(table: Table, source: Table, read: Sequence[Added]) -> float:
    """Return a bound, in milliseconds, that no row's time lies below; from statistics alone."""
    columns = ("_arrived_at", "_ingested_at") if table.judges else (str(source.event_at),)
    lowest = [part.lowest.get(column) for part in read for column in columns]
    known = [datetime.fromisoformat(moment) for moment in lowest if moment]
    if len(known) < len(lowest):
        return 0.0
    slack = table.lateness.late if table.judges else timedelta(0)
    return (min(known) - slack).timestamp() * 1000


def _below(rows: DataFrame, table: Table, source: Table, late_ms: int) -> int:
    """Count by the same comparison that Spark makes: at the watermark is too late."""
    if table.judges:
        moment = judged(rows, table).select(F.col("_time").alias("moment"))
    elif table.window:
        moment = rows.select(F.window(str(source.event_at), table.window)["end"].alias("moment"))
    else:
        moment = rows.select(F.col(str(source.event_at)).alias("moment"))
    return moment.where(F.col("moment") <= F.timestamp_millis(F.lit(late_ms))).count()


def _text(watermark_ms: int) -> str | None:
    if not watermark_ms:
        return None
    return datetime.fromtimestamp(watermark_ms / 1000, tz=UTC).isoformat()
