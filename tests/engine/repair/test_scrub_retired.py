"""The history behind a request to forget goes without waiting for the stream of a retired table, which reads nothing any more."""

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import TransientError
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.completeness import (
    STATE_OF,
    Retirement,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.lake.forgotten import Forgotten, keep, requests
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import name_of
from strandline.engine.repair.expire import AFTER, scrub
from tests.engine.flow.test_readers import checkpoint
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, written
from tests.support.rows import NOON

NO_SPARK = cast("SparkSession", None)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake whose gold is retired, and had not read all of silver that a request concerns."""
    lake = Lake(tmp_path)
    for table in (BRONZE, SILVER):
        for batch in range(9):
            one = entry(table, batch=batch, read=1, good=1, written=1)
            written(lake.table(table), numbers(1), one.encoded())
    checkpoint(lake, lake.checkpoint(SILVER), ended={1: {BRONZE: 9}})
    checkpoint(lake, lake.checkpoint(GOLD), ended={2: {SILVER: 3}})
    (lake.checkpoint(GOLD) / STATE_OF / "0" / "1.delta").put("rows of the past")
    write_down(GOLD.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)
    return lake


def forgotten(lake: Lake, **versions: int) -> None:
    """Write down a request that was carried out."""
    at = NOON.isoformat()
    named = {name.replace("__", "."): version for name, version in versions.items()}
    keep(lake, Forgotten(mark="m", begun_at=at, done_at=at, versions=named))


def test_it_is_let_go_and_the_history_behind_the_request_goes(lake: Lake) -> None:
    """It was refused with the hint to run the table, which is refused as retired."""
    forgotten(lake, silver__device_telemetry=5)

    (done, *_) = scrub(NO_SPARK, lake, NOON + AFTER)

    assert (done.table, done.until) == (SILVER.id, 5)
    assert not retired(lake)[GOLD.id].place_kept
    assert not (lake.checkpoint(GOLD) / STATE_OF).exists()
    assert [each.scrubbed_at is not None for each in requests(lake)] == [True]


def test_what_a_fed_table_has_not_read_is_waited_for_and_the_retired_one_keeps_its_place(
    lake: Lake,
) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={2: {BRONZE: 4}})
    forgotten(lake, bronze__device_telemetry=5, silver__device_telemetry=5)

    with pytest.raises(TransientError, match=f"{SILVER.id} still reads {BRONZE.id}"):
        [*scrub(NO_SPARK, lake, NOON + AFTER)]

    assert retired(lake)[GOLD.id].place_kept


@pytest.mark.whole
def test_what_it_has_read_costs_it_nothing(lake: Lake) -> None:
    forgotten(lake, silver__device_telemetry=2)

    [*scrub(NO_SPARK, lake, NOON + AFTER)]

    assert retired(lake)[GOLD.id].place_kept
    assert (lake.checkpoint(GOLD) / STATE_OF).exists()


@pytest.mark.parametrize("place_kept", [True, False])
def test_a_rebuild_that_was_left_before_it_was_retired_holds_up_nothing(
    lake: Lake, *, place_kept: bool
) -> None:
    """Nothing lets it read on: `run` is refused, and so is `promote` while the place is kept."""
    made = Shadow.of(GOLD, lake)
    written(made.table(GOLD), numbers(1), entry(GOLD).encoded())
    checkpoint(lake, made.checkpoint(GOLD), ended={1: {SILVER: 2}})
    strike_out(GOLD.id, lake)
    why = Retirement(who="ann", at=NOON.isoformat(), why="enough", place_kept=place_kept)
    write_down(GOLD.id, why, lake)
    shadow_lake.begin(made)  # after the request, so it is not outdated
    forgotten(lake, silver__device_telemetry=5)

    done = [*scrub(NO_SPARK, lake, NOON + AFTER)]

    assert [each.table for each in done][:2] == [f"the rebuild of {GOLD.id}", SILVER.id]
    assert not made.exists(GOLD)


@pytest.mark.whole
def test_one_that_began_before_a_request_is_removed_before_it_is_waited_for(lake: Lake) -> None:
    """Of a table that is fed: it is never promoted, and the hint to let it read on was none."""
    strike_out(GOLD.id, lake)
    checkpoint(lake, lake.checkpoint(GOLD), ended={9: {SILVER: 9}})
    made = Shadow.of(GOLD, lake)
    written(made.table(GOLD), numbers(1), entry(GOLD).encoded())
    checkpoint(lake, made.checkpoint(GOLD), ended={1: {SILVER: 2}})
    made.beginning.put(json.dumps({name_of(lake.table(SILVER)): 3}))
    forgotten(lake, silver__device_telemetry=5)

    done = [*scrub(NO_SPARK, lake, NOON + AFTER)]

    assert [each.table for each in done][:2] == [f"the rebuild of {GOLD.id}", SILVER.id]
    assert not made.exists(GOLD)
