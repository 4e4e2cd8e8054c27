"""A range of a table that joins rows of other windows is computed again from all of them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.engine.accounting.balance_sheet import balance
from jobs.engine.repair.backfill import backfill
from jobs.engine.repair.closed_range import Span
from jobs.engine.repair.reach import reach_of
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.open_table import opened
from tests.support.auctions import FOLLOWED, LOG, PRICES, UNBOUNDED, WAITED_FOR
from tests.support.literal import in_every_way, put
from tests.support.modes import derive
from tests.support.rows import Row, at, rows, shown

pytestmark = pytest.mark.slow

OPENING = Span(since=at("08:00:00"), until=at("09:00:00"))
WON = """
    category | auctions | price
    books    | 2        | 40.00
    maps     | 1        | 7.00
"""


def test_a_backfill_reads_the_bids_of_auctions_that_last_longer_than_a_window(
    spark: SparkSession, lake: Lake
) -> None:
    """Nothing has changed, so no row comes or goes; how far a table reaches is in its plan, or declared, or unknown."""
    for batch in "12345":
        put(lake, LOG, batch)
        derive(spark, lake, WAITED_FOR)
    assert prices(lake) == rows(WON)

    done = backfill(spark, WAITED_FOR, lake, OPENING)

    assert (done.came, done.gone) == (0, 0)
    assert prices(lake) == rows(WON)
    assert balance(WAITED_FOR, lake).faults == []
    declared = replace(UNBOUNDED, reach="4 hours")
    found = [reach_of(spark, each, lake) for each in (WAITED_FOR, declared, UNBOUNDED, PRICES)]
    bounded = timedelta(hours=4 + 2, milliseconds=1)
    assert found == [bounded, timedelta(hours=5), None, None]


def test_a_table_that_is_recomputed_follows_what_it_reaches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The query as it is first written is right in a table without state."""
    found = in_every_way(spark, tmp_path, FOLLOWED, LOG, ways=("batch", "step by step"))

    assert shown(found, "category", "auctions", "price") == rows(WON)


def prices(lake: Lake) -> list[Row]:
    found = opened(lake.table(WAITED_FOR)).to_pyarrow_table().to_pylist()
    return shown(found, "category", "auctions", "price")
