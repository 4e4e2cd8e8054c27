"""Windows are computed afresh where a source changed, and put in the place of what was there."""

from collections import Counter

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.gold import device_signal_10m
from jobs.gold.device_daily import TABLE
from jobs.run.afresh import Afresh
from jobs.run.balance import balance
from jobs.run.lake import Lake
from jobs.silver import devices
from tests.support.literal import put, written
from tests.support.shapes import INTERVALS, SIGNALS

LOG = {
    device_signal_10m.TABLE: (
        SIGNALS,
        """
        batch | device_id | signal | window_from | readings | min_value | max_value
        1     | d1        | t      | 09:00:00    | 1        | 1.00      | 1.00
        1     | d2        | t      | 09:00:00    | 1        | 1.00      | 1.00
        2     | d1        | t      | 09:10:00    | 1        | 2.00      | 2.00
        """,
    ),
    devices.TABLE: (INTERVALS, "batch | device_id | valid_from | valid_until | site"),
}


def days(lake: Lake) -> Counter[tuple[str, int]]:
    found = DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist()
    return Counter((row["device_id"], row["readings"]) for row in found)


def test_a_start_that_finds_news_without_rows_still_knows_what_it_must_replace(
    spark: SparkSession, lake: Lake
) -> None:
    """Found by a verification: after a kill the first thing read was a batch that said nothing."""
    put(spark, lake, LOG, "1")
    Afresh(spark, TABLE, lake, "available-now").catch_up()
    nothing = spark.createDataFrame([], SIGNALS)
    written(spark, lake, device_signal_10m.TABLE, SIGNALS, nothing)

    again = Afresh(spark, TABLE, lake, "available-now")
    first = again.catch_up()
    put(spark, lake, LOG, "2")
    second = again.catch_up()

    assert first is not None
    assert (first.read, first.written) == (0, 0)
    assert second is not None
    assert (second.read, second.written) == (1, 2)
    assert days(lake) == {("d1", 2): 1, ("d2", 1): 1}
    assert again.catch_up() is None
    assert balance(TABLE, lake).faults == []
