"""Windows are recomputed where a source changed, and replace the older ones."""

from collections import Counter

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.gold.device_daily import TABLE
from fleet.silver import devices
from strandline.core.errors import DamagedError
from strandline.core.stateful import AvailableNow, Batch
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.recompute import Afresh
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import live_files, opened
from strandline.engine.lake.place import Place
from tests.support.literal import put, written
from tests.support.modes import derive
from tests.support.shapes import INTERVALS, SIGNALS

pytestmark = pytest.mark.whole

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
    live = DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist()
    return Counter((row["device_id"], row["readings"]) for row in live)


def test_a_restart_whose_first_commit_has_no_rows_still_replaces_older_windows(
    spark: SparkSession, lake: Lake
) -> None:
    """A verification showed it: after a kill the first commit that was read had no rows."""
    put(lake, LOG, "1")
    Afresh(spark, TABLE, lake, "available-now").catch_up()
    nothing = spark.createDataFrame([], SIGNALS)
    written(spark, lake, device_signal_10m.TABLE, SIGNALS, nothing)

    again = Afresh(spark, TABLE, lake, "available-now")
    first = again.catch_up()
    put(lake, LOG, "2")
    second = again.catch_up()

    assert first is not None
    assert (first.read, first.written) == (0, 0)
    assert second is not None
    assert (second.read, second.written) == (1, 2)
    assert days(lake) == {("d1", 2): 1, ("d2", 1): 1}
    assert again.catch_up() is None
    assert balance(TABLE, lake).faults == []


def test_a_file_of_a_source_that_is_gone_is_named_with_the_table_that_lacks_it(
    spark: SparkSession, lake: Lake
) -> None:
    """It was unforeseen, with a trace of Spark's: only tables with a stream of their own asked what the error meant."""
    put(lake, LOG, "1")
    (file, *_) = live_files(opened(lake.table(device_signal_10m.TABLE)))
    Place.of(file).remove()

    for mode in (AvailableNow(), Batch()):
        with pytest.raises(DamagedError) as failed:
            derive(spark, lake, TABLE, mode=mode)

        lacks = f"{device_signal_10m.TABLE.id} lacks its file {file.rpartition('/')[2]}"
        assert failed.value.message.startswith(lacks)
        assert f"`strandline rebuild {device_signal_10m.TABLE.id}`" in failed.value.hint
