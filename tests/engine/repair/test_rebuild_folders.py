"""A table whose code partitions it in another way is refused until it is rebuilt."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import device_inventory, devices
from fleet.silver.devices import TABLE
from strandline.core.errors import DefinitionError
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.repair.rebuild import promote, rebuild, undo
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import NOON, rows, shown
from tests.support.shapes import arrived

pytestmark = [pytest.mark.core, pytest.mark.whole]

INVENTORY = """
    batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
    1     | 1         | d1        | berlin | m1    | ann   | 08:00:00 | 08:00:00    | 0          | 0
    1     | 2         | d1        | lima   | m1    | bob   | 10:00:00 | 10:00:00    | 0          | 1
    2     | 3         | d1        | osaka  | m1    | cleo  | 11:00:00 | 11:00:00    | 0          | 2
"""
SHOWN = ("device_id", "valid_from", "valid_until", "site")


def by_beginning(changes: DataFrame) -> DataFrame:
    """Partition the intervals by the day on which they began, as the table once did."""
    began = F.date_trunc("day", "valid_from")
    return devices.devices(changes).drop("ended_on").withColumn("began_on", began)


@pytest.mark.slow
def test_a_promotion_takes_over_the_partitioning_of_the_shadow(
    spark: SparkSession, lake: Lake
) -> None:
    log = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY)}
    path = lake.table(TABLE)
    put(lake, log, "1")
    derive(spark, lake, replace(TABLE, transform=by_beginning, window_from="began_on"))
    with pytest.raises(DefinitionError, match="its table lacks ended_on") as refused:
        derive(spark, lake, TABLE)
    assert "strandline migrate silver.devices" in str(refused.value.hint)

    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(TABLE, lake, site)
    promote(TABLE, lake, site)
    put(lake, log, "2")
    derive(spark, lake, TABLE)

    assert folders(path) == ["ended_on"]
    assert shown(opened(path).to_pyarrow_table().to_pylist(), *SHOWN) == rows("""
        device_id | valid_from | valid_until | site
        d1        | 08:00:00   | 10:00:00    | berlin
        d1        | 10:00:00   | 11:00:00    | lima
        d1        | 11:00:00   | -           | osaka
    """)
    undo(spark, TABLE, lake)
    assert folders(path) == ["began_on"]
    assert opened(path).to_pyarrow_table().num_rows == 2


def folders(path: Place) -> list[str]:
    return opened(path).metadata().partition_columns
