"""The streams of a copied lake go on from where they were, also when the original is gone."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.silver import device_inventory
from fleet.silver.devices import TABLE
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.mend_checkpoint import settle
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.shapes import arrived

INVENTORY = """
    batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
    1     | 1         | d1        | berlin | m1    | ann   | 08:00:00 | 08:00:00    | 0          | 0
    2     | 2         | d1        | osaka  | m1    | cleo  | 11:00:00 | 11:00:00    | 0          | 1
"""


@pytest.mark.slow
def test_the_state_of_a_copied_lake_is_its_own(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """A backup restored to another place is useful only if its streams go on."""
    log = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY)}
    put(lake, log, "1")
    derive(spark, lake, TABLE)
    copy = Lake(tmp_path / "copy")
    shutil.copytree(lake.root, copy.root)
    shutil.rmtree(lake.root)

    put(copy, log, "2")
    derive(spark, copy, TABLE)

    found = DeltaTable(copy.table(TABLE)).to_pyarrow_table().to_pylist()
    assert sorted((row["site"], row["valid_until"] is None) for row in found) == [
        ("berlin", False),
        ("osaka", True),
    ]
    operators = list(copy.checkpoint(TABLE).local.glob("state/*/_metadata/v2/0"))
    assert operators
    before = [file.stat().st_mtime_ns for file in operators]
    settle(copy.checkpoint(TABLE))
    assert [file.stat().st_mtime_ns for file in operators] == before, "once is enough"
