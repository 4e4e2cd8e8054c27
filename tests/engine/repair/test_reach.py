"""A range of a table that joins rows of other windows is computed again from all of them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from fleet.gold import ip_holds
from fleet.silver import device_inventory, devices, dhcp_events
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Appended, Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.repair.backfill import backfill, reach_of
from strandline.engine.repair.closed_range import Span, closed_until
from strandline.engine.repair.downstream import backfill_above
from strandline.engine.repair.replay import replay
from tests.support.auctions import AUCTIONS, BIDS, FOLLOWED, LOG, PRICES, UNBOUNDED, WAITED_FOR
from tests.support.events import TABLE, commits, readings, received
from tests.support.literal import in_every_way, put
from tests.support.modes import derive, twin
from tests.support.morning import STRICT
from tests.support.rows import Row, at, rows, shown
from tests.support.shapes import arrived

pytestmark = pytest.mark.slow

OPENING = Span(since=at("08:00:00"), until=at("09:00:00"))
WON = """
    category | auctions | price
    books    | 2        | 40.00
    maps     | 1        | 7.00
"""


@pytest.mark.whole
def test_a_backfill_reads_the_bids_of_auctions_that_last_longer_than_a_window(
    spark: SparkSession, lake: Lake
) -> None:
    """Nothing has changed, so no row comes or goes; how far a table reaches is in its plan, or declared, or unknown."""
    for batch in "12345":
        put(lake, LOG, batch)
        derive(spark, lake, WAITED_FOR)
    assert prices(lake) == rows(WON)
    whole = Lake(lake.root.parent / "whole").open_for_writing()
    for batch in "12345":
        put(whole, LOG, batch)
    derive(spark, whole, WAITED_FOR, mode=Batch())
    assert prices(whole) == rows(WON)

    done = backfill(spark, WAITED_FOR, lake, OPENING)

    assert (done.came, done.gone) == (0, 0)
    assert prices(lake) == rows(WON)
    assert balance(WAITED_FOR, lake).faults == []
    declared = replace(UNBOUNDED, reach="4 hours")
    found = [reach_of(spark, each, lake) for each in (WAITED_FOR, declared, UNBOUNDED, PRICES)]
    bounded = timedelta(hours=4 + 2, milliseconds=1)
    assert found == [bounded, timedelta(hours=5), None, None]


@pytest.mark.whole
def test_a_table_that_is_recomputed_follows_what_it_reaches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The query as it is first written is right in a table without state."""
    found = in_every_way(spark, tmp_path, FOLLOWED, LOG, ways=("batch", "step by step"))

    assert shown(found, "category", "auctions", "price") == rows(WON)


def followers(readings_: DataFrame) -> DataFrame:
    """Count, by device and ten minutes, the readings that follow within three hours of those of the ten minutes."""
    first = readings_.select("device_id", "event_at")
    later = readings_.select(F.col("device_id").alias("of"), F.col("event_at").alias("later_at"))
    lasts = F.col("event_at") + F.expr("INTERVAL 3 HOURS")
    meets = (F.col("device_id") == F.col("of")) & F.col("later_at").between(
        F.col("event_at"), lasts
    )
    window = F.window("event_at", "10 minutes")
    counted = first.join(later, meets).groupBy("device_id", window).agg(F.count("*").alias("found"))
    over = F.col("window.end") + F.expr("INTERVAL '03:00:00.001' HOUR TO SECOND")
    return counted.select(
        "device_id", F.col("window.start").alias("opens"), over.alias("final_at"), "found"
    )


FOLLOWERS = Windowed(
    name="followers",
    reads=(silver.TABLE,),
    transform=followers,
    key=("device_id", "opens"),
    window="10 minutes",
    window_from="opens",
    closes_at="final_at",
)
HELD = """
    batch | id | device | value | event_at
    1     | a  | d1     | 1     | 09:00:00
    1     | b  | d1     | 77    | 10:00:00
    1     | c  | d1     | 3     | 12:30:00
"""
AFTERWARDS = """
    batch | id | device | value | event_at
    2     | d  | d1     | 5     | 20:00:00
"""


@pytest.mark.whole
def test_a_replay_waits_until_the_stream_has_met_all_partners_of_its_rows(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ten minutes of the row are long over, and three hours later it may still be followed; no ``reach`` is declared."""
    monkeypatch.setattr(catalog, "tables", lambda: (TABLE, silver.TABLE, FOLLOWERS))
    come(spark, lake, HELD)

    early = replay(spark, silver.TABLE, lake)
    come(spark, lake, AFTERWARDS)
    late = replay(spark, silver.TABLE, lake)

    anew = twin(lake, "anew")
    derive(spark, anew, silver.TABLE, FOLLOWERS, mode=Batch())
    assert followed(lake) == followed(anew)
    assert (early.healed, early.wait, late.healed, late.wait) == (0, 1, 1, 0)
    assert early.waits_for == FOLLOWERS.id
    assert early.possible_from is not None
    assert balance(FOLLOWERS, lake).faults == []


def come(spark: SparkSession, lake: Lake, text: str) -> None:
    for batch in commits(readings(text)):
        received(lake, batch)
        derive(spark, lake, STRICT, FOLLOWERS)


def followed(lake: Lake) -> list[Row]:
    found = opened(lake.table(FOLLOWERS)).to_pyarrow_table().to_pylist()
    return shown(found, "device_id", "opens", "found")


def pairs(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Join each auction with its bids, however late."""
    return auctions.join(bids, F.col("k") == F.col("auction"))


PAIRS = Appended(
    name="pairs", reads=(AUCTIONS, BIDS), transform=pairs, key=("k", "bid_at"), event_at="opened_at"
)


def test_what_joins_without_a_bound_is_never_closed_until_it_declares_one(
    spark: SparkSession, lake: Lake
) -> None:
    """Its stream would never see what a repair brings; the refusal says what to declare."""
    for batch in "123":
        put(lake, LOG, batch)
        derive(spark, lake, PAIRS)

    with pytest.raises(DefinitionError, match="nothing says how far apart") as refused:
        backfill(spark, PAIRS, lake, OPENING)

    assert 'reach="4 hours"' in refused.value.hint
    assert closed_until(PAIRS, lake) is None
    # The newest rows of both are of 12:10 and 12:19, ten minutes late at most.
    assert closed_until(replace(PAIRS, reach="4 hours"), lake) == at("08:00:00")


HELD_BY = """
    batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
    1     | 1         | d1        | berlin | m     | o1    | 08:00:00 | 08:00:00    | 0          | 1
    1     | 2         | d2        | lima   | m     | o1    | 12:00:00 | 12:00:00    | 0          | 2
    2     | 3         | d1        | boston | m     | o2    | 09:00:00 | 09:00:00    | 0          | 3
    3     | 4         | d1        | osaka  | m     | o2    | 14:00:00 | 14:00:00    | 0          | 4
"""
NINE = Span(since=at("09:00:00"), until=at("09:00:01"))


def test_a_change_below_a_row_that_holds_still_is_refused_until_its_stream_has_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state has the device in Berlin until its next change: the rows were passed over, and stayed wrong in silence."""
    monkeypatch.setattr(catalog, "tables", lambda: (device_inventory.TABLE, devices.TABLE))
    log = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), HELD_BY)}
    put(lake, log, "1")
    derive(spark, lake, devices.TABLE)
    put(lake, log, "3")  # its stream has not read it, and will write what follows from it
    assert [*backfill_above(spark, device_inventory.TABLE, lake, NINE)] == [(devices.TABLE, None)]
    put(lake, log, "2")  # as a replay brings it in, behind the stream

    with pytest.raises(DefinitionError, match=r"of silver\.devices that are still open") as refused:
        [*backfill_above(spark, device_inventory.TABLE, lake, NINE)]

    assert "strandline rebuild silver.devices" in refused.value.hint


ENDED_SINCE = """
    batch | dhcp_id | kind     | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
    1     | 1       | ack      | m1  | d1        | a  | 36000         | 08:00:00 | 08:00:00    | 0          | 1
    1     | 2       | ack      | m2  | d2        | b  | 36000         | 09:00:00 | 09:00:00    | 0          | 2
    1     | 3       | release  | m1  | d1        | a  | -             | 11:30:00 | 11:30:00    | 0          | 3
    1     | 4       | discover | m3  | d3        | -  | -             | 13:15:00 | 13:15:00    | 0          | 4
"""


@pytest.mark.whole
def test_a_hold_that_has_just_ended_refuses_no_repair_below_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream has read further than it has written: as far as events may be late."""
    monkeypatch.setattr(catalog, "tables", lambda: (dhcp_events.TABLE, ip_holds.TABLE))
    put(lake, {dhcp_events.TABLE: (arrived(dhcp_events.FIELDS), ENDED_SINCE)}, "1")
    derive(spark, lake, ip_holds.TABLE)

    assert [*backfill_above(spark, dhcp_events.TABLE, lake, NINE)] == [(ip_holds.TABLE, None)]


def prices(lake: Lake) -> list[Row]:
    found = opened(lake.table(WAITED_FOR)).to_pyarrow_table().to_pylist()
    return shown(found, "category", "auctions", "price")
