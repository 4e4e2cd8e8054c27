"""The first batch of a backlog is as large as memory allows, unless something was measured, or a process has ended in one."""

import json

import pytest
from pyspark.sql import SparkSession

from fleet.silver.device_telemetry import TABLE
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.batch.governor import ROW_OF_SILVER
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.runtime.jvm import Heap
from tests.engine.flow.test_trigger_limit import FOUR
from tests.support.events import readings, received
from tests.support.rows import NOON

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.mark.parametrize(
    ("kept", "reads"),
    [
        ({"rows": 2}, [8]),
        ({"rows": 2, "best_rows": 2, "best": 1.0}, [2, 2, 2, 2]),
        ({"rows": 2, "most": 2, "deaths": 1}, [2, 2, 2, 2]),
    ],
    ids=("nothing measured", "measured", "died"),
)
def test_it_begins_where_memory_allows(
    spark: SparkSession, lake: Lake, kept: dict[str, float], reads: list[int]
) -> None:
    """Four commits of two rows are a backlog for a size of two."""
    received(lake, readings(FOUR))
    heap = Heap(spark).bytes
    lake.batch_size(TABLE).put(json.dumps({**kept, "heap": heap}))

    run(TABLE, AvailableNow(), lake, site=Site(spark=spark, clock=lambda: NOON))

    found = [entry for _, entry in entries(lake.table(TABLE))]
    assert [entry.read for entry in found] == reads
    is_new = reads == [8]
    assert all((2 < entry.most <= heap // ROW_OF_SILVER) is is_new for entry in found)
