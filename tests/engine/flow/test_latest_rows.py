"""A table of the latest rows of keys that have no window of their own."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.table import Upserted
from strandline.engine.lake.lake import Lake
from tests.support.edits import FIELDS, source
from tests.support.literal import TWO, Log, in_every_way, put
from tests.support.modes import derive

BIDS = source("bids")
LOG: Log = {
    BIDS: (
        FIELDS,
        """
    batch | k | v  | at
    1     | a | 10 | 08:11:00
    1     | b | 30 | 08:45:00
    2     | a | 99 | 09:51:00
    3     | b | 1  | 10:00:00
""",
    )
}


def latest(bids: DataFrame, shelf: Column) -> DataFrame:
    last = bids.groupBy("k").agg(F.max_by("v", "at").alias("v"), F.max("at").alias("last_at"))
    return last.withColumn("shelf", shelf)


def on_one_shelf(bids: DataFrame) -> DataFrame:
    return latest(bids, F.lit("1970-01-01").cast("timestamp"))


def by_last(bids: DataFrame) -> DataFrame:
    return latest(bids, F.date_trunc("hour", "last_at"))


LATEST = Upserted(
    name="latest",
    reads=(BIDS,),
    transform=on_one_shelf,
    key=("k",),
    event_at="last_at",
    window_from="shelf",
)


def test_the_latest_row_of_each_key_without_a_window(spark: SparkSession, tmp_path: Path) -> None:
    """Grouped by no time, the stream keeps every key, and a constant is the partition of all."""
    found = in_every_way(spark, tmp_path, LATEST, LOG, ways=TWO)

    assert [(row["k"], row["v"], row["last_at"]) for row in found] == [
        ("a", "99", "09:51:00"),
        ("b", "1", "10:00:00"),
    ]


def test_a_window_that_moves_with_the_latest_row_is_refused(
    spark: SparkSession, lake: Lake
) -> None:
    """In a stream the row of before stayed in the partition of its own hour, and each key had two; a batch had one."""
    put(lake, LOG, "1")
    table = replace(LATEST, transform=by_last)

    with pytest.raises(DefinitionError, match="aggregates shelf, the window of a key") as refused:
        derive(spark, lake, table)

    assert "a constant" in refused.value.hint
    assert not lake.exists(table)
