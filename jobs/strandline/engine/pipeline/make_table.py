"""Making a table of silver or gold, and the quarantine of one that judges, before the first rows.

Its columns may be NULL, whatever the function returns. Spark calls a struct that a function builds, or a constant, free of
NULL; a table that declares so cannot be read from its beginning once it is promoted over one that did not: each reader ends
with DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS. What must not be NULL is a rule's matter, which holds the row.
"""

from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from strandline.core.received import QUARANTINE
from strandline.core.table import Appended, Computed, Judged, Recomputed, Upserted, Windowed
from strandline.core.verdict import good_rows
from strandline.engine.storage import create_table
from strandline.engine.storage.declared_table import nullable
from strandline.engine.storage.lake import Lake

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
                nullable(good_rows(result).schema),
                properties={"delta.dataSkippingStatsColumns": f"{table.event_at},{HANDLES}"},
            )
        case Windowed() | Appended():
            create_table.create(spark, lake.table(table), nullable(result.schema))
        case Upserted() | Recomputed():
            folders = [table.window_from]
            schema = nullable(result.schema)
            create_table.create(spark, lake.table(table), schema, partition_by=folders)
        case _:
            assert_never(table)
