"""Making a table of silver or gold, and the quarantine of one that judges, before the first rows."""

from pyspark.sql import DataFrame, SparkSession

from jobs.core.received import QUARANTINE
from jobs.core.table import Table
from jobs.core.verdict import good_rows
from jobs.engine.storage import delta_commit
from jobs.engine.storage.lake import Lake


def make(spark: SparkSession, table: Table, lake: Lake, result: DataFrame) -> None:
    """Make the table and its quarantine unless they are there."""
    if table.judges:
        delta_commit.create(
            spark,
            lake.quarantine(table),
            QUARANTINE,
            properties={
                "delta.dataSkippingStatsColumns": "_partition,_offset,_arrived_at,event_at",
            },
        )
        schema = good_rows(result).schema
        stats = f"{table.event_at},_partition,_offset,_arrived_at"
        delta_commit.create(
            spark,
            lake.table(table),
            schema,
            properties={"delta.dataSkippingStatsColumns": stats},
        )
        return
    partition_by = [str(table.window_from)] if table.emits_updates else []
    delta_commit.create(spark, lake.table(table), result.schema, partition_by=partition_by)
