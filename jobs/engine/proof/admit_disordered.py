"""Admit disordered rows, which a replay admitted into the live table, into another computation of the same log.

Every mode holds a row that arrived out of order. If a replay or a backfill admitted it later, that follows not from
the log but from an operator's decision, which the resolutions of the quarantine keep. A verification computes the
table from bronze as it was received, and then admits the same rows by the same code.

A rebuild does not: its shadow holds these rows again, the comparison shows them, and a replay admits them.
"""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.lateness import DISORDERED
from jobs.core.received import PLACE
from jobs.core.table import Judged, Table
from jobs.engine.quarantine.resolutions import RELEASED, generation
from jobs.engine.quarantine.write import UNSIGNED, open_records
from jobs.engine.repair.downstream import backfill_above
from jobs.engine.repair.replay import Work, begin
from jobs.engine.repair.replay_plan import healing
from jobs.engine.runtime.meter import Meter
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import is_table
from jobs.engine.storage.read_version import rows_at

ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of the closed time of a lake that no stream writes."""


def admitted(spark: SparkSession, table: Table, lake: Lake, version: int) -> DataFrame | None:
    """Return the places of disordered rows that were admitted; None when there are none.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        version: The version of its resolutions up to which they count.
    """
    path = lake.resolutions(table)
    if not is_table(path) or version < 0:
        return None
    resolutions = rows_at(spark, path, version)
    was_disordered = F.col("reasons") == F.array(F.lit(DISORDERED))
    is_released = F.col("status").isin(*(status.value for status in RELEASED))
    is_of_now = F.col("generation") == generation(lake.quarantine(table))
    places = resolutions.where(was_disordered & is_released & is_of_now).select(*PLACE).distinct()
    return None if places.isEmpty() else places


def admit(spark: SparkSession, table: Judged, lake: Lake, places: DataFrame) -> int:
    """Admit the disordered rows of some places into a lake that no stream writes, and update the tables downstream.

    Returns:
        How many rows were admitted.
    """
    chosen = open_records(spark, table, lake).join(places, [*PLACE], "left_semi")
    work = Work(
        spark=spark,
        table=table,
        lake=lake,
        signed=UNSIGNED,
        on_table=lambda _, __: None,
        meter=Meter(spark),
    )
    with healing(spark, table, lake, chosen, ALWAYS) as healed:
        touched = healed.touched
        if touched is None:
            return 0
        done = begin(work, healed, touched)
    for _ in backfill_above(spark, table, lake, touched, is_live=False):
        pass
    return done.came
