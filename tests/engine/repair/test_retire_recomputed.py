"""A retired table that is recomputed is fed again under its own name, also where its sources were not kept for it."""

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.gold.device_daily import TABLE
from fleet.silver import devices
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site
from strandline.engine.lake.completeness import (
    RetiredError,
    Retirement,
    let_go,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.repair import retire
from strandline.engine.repair.expire import expire
from strandline.engine.repair.retire import is_behind_for_good, take_back, take_back_anew
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.shapes import INTERVALS, SIGNALS

pytestmark = pytest.mark.whole

SOURCE = replace(device_signal_10m.TABLE, keeps="5 days")
LOG = {
    SOURCE: (
        SIGNALS,
        """
        batch | device_id | signal | window_from       | readings | min_value | max_value
        1     | d1        | t      | 2026-11-10T09:00Z | 1        | 1.00      | 1.00
        2     | d2        | t      | 2026-11-19T09:00Z | 1        | 1.00      | 1.00
        3     | d1        | t      | 2026-11-10T09:10Z | 1        | 2.00      | 2.00
        4     | d2        | t      | 2026-11-19T09:10Z | 1        | 2.00      | 2.00
        5     | d2        | t      | 2026-11-19T09:20Z | 1        | 2.00      | 2.00
        """,
    ),
    devices.TABLE: (INTERVALS, "batch | device_id | valid_from | valid_until | site"),
}
WHY = Retirement(who="ann", at=NOON.isoformat(), why="enough")


def come(lake: Lake, batches: str) -> None:
    for each in batches:
        put(lake, LOG, each)


def days(lake: Lake) -> Counter[tuple[str, int]]:
    live = DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist()
    return Counter((row["device_id"], row["readings"]) for row in live)


def test_it_is_recomputed_and_what_retention_deleted_below_it_stays_as_it_was(
    spark: SparkSession, lake: Lake
) -> None:
    """`--undo` sent it to a table of another name; a whole computation would have lost the first day."""
    site = Site(spark=spark, clock=lambda: NOON)
    come(lake, "12")
    derive(spark, lake, TABLE)
    write_down(TABLE.id, WHY, lake)
    come(lake, "34")
    (gone,) = expire(spark, SOURCE, lake, NOON)
    assert gone.rows == 2
    assert is_behind_for_good(TABLE, lake)
    with pytest.raises(DefinitionError, match="cannot go on where it ended"):
        take_back(TABLE, lake)

    with (
        patch.object(retire, "changed", side_effect=KeyboardInterrupt),  # before it is fed
        pytest.raises(KeyboardInterrupt),
    ):
        take_back_anew(TABLE, lake, site)
    with pytest.raises(RetiredError):
        derive(spark, lake, TABLE)
    entry = take_back_anew(TABLE, lake, site)

    assert (entry.written, retired(lake)) == (1, {})
    assert days(lake) == {("d1", 1): 1, ("d2", 2): 1}
    come(lake, "5")
    derive(spark, lake, TABLE)
    assert days(lake) == {("d1", 1): 1, ("d2", 3): 1}
    assert (balance(TABLE, lake).waiting, balance(TABLE, lake).faults) == (0, [])


def test_it_is_recomputed_whole_where_nothing_was_deleted(spark: SparkSession, lake: Lake) -> None:
    come(lake, "12")
    derive(spark, lake, TABLE)
    write_down(TABLE.id, WHY, lake)
    come(lake, "34")
    let_go(TABLE, lake)
    site = Site(spark=spark, clock=lambda: NOON)
    write_down(SOURCE.id, WHY, lake)
    with pytest.raises(DefinitionError, match=f"first `strandline retire {SOURCE.id} --undo`"):
        take_back_anew(TABLE, lake, site)
    strike_out(SOURCE.id, lake)

    take_back_anew(TABLE, lake, site)

    assert days(lake) == {("d1", 2): 1, ("d2", 2): 1}
    assert (retired(lake), balance(TABLE, lake).faults) == ({}, [])
