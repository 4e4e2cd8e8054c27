"""Making a table of silver or gold, and the quarantine of one that judges, before the first rows."""

from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from jobs.core.received import QUARANTINE
from jobs.core.table import Appended, Computed, Judged, Recomputed, Upserted, Windowed
from jobs.core.verdict import good_rows
from jobs.engine.storage import create_table
from jobs.engine.storage.lake import Lake

HANDLES = "_partition,_offset,_arrived_at"


def make(spark: SparkSession, table: Computed, lake: Lake, result: DataFrame) -> None:
    """Make the table and its quarantine unless they are there."""
    match table:
        case Judged():
            create_table.create(
                spark,
                lake.quarantine(table),
                QUARANTINE,
                properties={"delta.dataSkippingStatsColumns": f"{HANDLES},event_at"},
            )
            create_table.create(
                spark,
                lake.table(table),
                good_rows(result).schema,
                properties={"delta.dataSkippingStatsColumns": f"{table.event_at},{HANDLES}"},
            )
        case Windowed() | Appended():
            create_table.create(spark, lake.table(table), result.schema)
        case Upserted() | Recomputed():
            folders = [table.window_from]
            create_table.create(spark, lake.table(table), result.schema, partition_by=folders)
        case _:
            assert_never(table)
