"""The upsert that every guide shows: MERGE the changed windows by their key, inside ``foreachBatch``."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

KEY = ("device_id", "signal", "window_from")


def upsert(path: str, batch: DataFrame, number: int) -> None:  # noqa: ARG001  # Spark gives both
    """Put the changed windows into the table."""
    same = " AND ".join(f"kept.{name} = changed.{name}" for name in KEY)
    (
        DeltaTable.forPath(batch.sparkSession, path)
        .alias("kept")
        .merge(batch.alias("changed"), same)
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
