"""Disordered rows that were brought in once, brought into another computation of the same log.

A row that arrived out of order is held by every mode. What a replay or a backfill has brought in since then follows
from no log but from what somebody decided, which the resolutions of the quarantine keep. A verification computes the
table from bronze as it was received, and then brings in the same rows by the same code.

A rebuild does not: its table holds them again, shows them as differing, and a replay brings them in.
"""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.lateness import DISORDERED
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.above import backfill_above
from jobs.run.closing import NOBODY, open_records
from jobs.run.heal import healing
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from jobs.run.meter import Meter
from jobs.run.replay import Work, begin
from jobs.run.resolutions import RELEASED, generation
from jobs.run.rows import rows_at

ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of what is closed where no stream goes on."""


def admitted(spark: SparkSession, table: Table, lake: Lake, version: int) -> DataFrame | None:
    """Return the places of disordered rows that were brought in; None when there are none.

    Args:
        spark: The session.
        table: A judged table.
        lake: Where.
        version: Up to which version of its resolutions.
    """
    path = lake.resolutions(table)
    if not is_table(path) or version < 0:
        return None
    resolutions = rows_at(spark, path, version)
    was_disordered = F.col("reasons") == F.array(F.lit(DISORDERED))
    is_released = F.col("status").isin(*(status.value for status in RELEASED))
    is_of_now = F.col("generation") == generation(lake.quarantine(table)).begun
    places = resolutions.where(was_disordered & is_released & is_of_now).select(*PLACE).distinct()
    return None if places.isEmpty() else places


def admit(spark: SparkSession, table: Table, lake: Lake, places: DataFrame) -> int:
    """Bring the disordered rows of some places into a lake that no stream writes, and into what rests on them.

    Returns:
        How many rows were brought in.
    """
    chosen = open_records(spark, table, lake).join(places, [*PLACE], "left_semi")
    work = Work(
        spark=spark,
        table=table,
        lake=lake,
        signed=NOBODY,
        tell=lambda _, __: None,
        meter=Meter(spark),
    )
    with healing(spark, table, lake, chosen, ALWAYS) as found:
        touched = found.touched
        if touched is None:
            return 0
        done = begin(work, found, touched)
    for _ in backfill_above(spark, table, lake, touched):
        pass
    return done.came
