"""A stream continues its own table and reads tables that only grow; anything else is refused before it starts."""

import shutil

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.stateful import Batch
from strandline.engine.lake.lake import Lake
from tests.support.events import readings, received
from tests.support.modes import derive

pytestmark = pytest.mark.slow

LOG = """
    id | device | signal | value | event_at
    a  | d1     | t      | 1     | 09:00:00
    b  | d1     | t      | 2     | 10:30:00
"""


@pytest.mark.whole
def test_a_stream_does_not_follow_a_table_that_batches_replace(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    for _ in range(2):
        derive(spark, lake, silver.TABLE, mode=Batch())

    with pytest.raises(DefinitionError, match="no stream can follow it") as refused:
        derive(spark, lake, gold.TABLE)

    assert "--mode batch" in str(refused.value.hint)
    assert not lake.exists(gold.TABLE)
    derive(spark, lake, gold.TABLE, mode=Batch())


@pytest.mark.whole
def test_a_stream_does_not_continue_what_a_batch_wrote(spark: SparkSession, lake: Lake) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE, mode=Batch())

    with pytest.raises(DefinitionError, match="was written by a batch run"):
        derive(spark, lake, silver.TABLE)


@pytest.mark.whole
def test_a_stream_does_not_continue_a_table_whose_checkpoint_is_gone(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    shutil.rmtree(lake.checkpoint(silver.TABLE))

    with pytest.raises(DefinitionError, match="whose checkpoint is gone"):
        derive(spark, lake, silver.TABLE)


def test_a_stream_does_not_skip_rows_that_its_table_has_lost(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    shutil.rmtree(lake.table(silver.TABLE))

    with pytest.raises(DamagedError, match="lacks rows"):
        derive(spark, lake, silver.TABLE)
