"""A sheet says what a backfill brought in; nobody has to decode a negative count."""

from pathlib import Path

import pytest

from jobs.run.balance import Balance, balance
from jobs.run.figures import sheet
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.shadow import summed
from tests.run.written import BRONZE, SILVER, entry, numbers, small_lake, written

RANGE = {"mode": "backfill", "since": "2026-11-20", "until": "2026-11-21"}


def places(found: Balance) -> tuple[int, int, int, int]:
    return (found.good, found.duplicates, found.dropped_by_watermark, found.healed)


def backfilled(lake: Lake, **fields: object) -> Entry:
    """Commit what a backfill changed, as many rows as it says."""
    told = entry(SILVER, **RANGE, **fields)
    written(lake.table(SILVER), numbers(told.written), told.encoded())
    return told


@pytest.fixture
def dropped(tmp_path: Path) -> Lake:
    """Return a lake of which the state of silver refused 50 rows of 250, after five of a sound start."""
    lake = small_lake(tmp_path)
    more = entry(BRONZE, batch=2, offsets={"0": (5, 255)}, read=250, good=250, written=250)
    written(lake.table(BRONZE), numbers(250), more.encoded())
    refused = entry(
        SILVER,
        batch=1,
        versions={BRONZE.id: (2, 2)},
        read=250,
        good=190,
        duplicates=10,
        dropped_by_watermark=50,
        written=190,
    )
    written(lake.table(SILVER), numbers(190), refused.encoded())
    return lake


def test_rows_that_were_dropped_and_came_by_a_backfill_are_healed(dropped: Lake) -> None:
    """They are in the table, so they are neither dropped any more nor less than no copies."""
    before = balance(SILVER, dropped)

    backfilled(dropped, came=50, good=50, duplicates=-50, written=50)
    after = balance(SILVER, dropped)

    assert places(before) == (193, 11, 50, 0)
    assert places(after) == (243, 11, 0, 50)
    assert after.read == after.good + after.duplicates + 1 + after.dropped_by_watermark
    assert after.balanced, after.faults
    assert sheet(after).healed == 50


def test_copies_that_are_held_back_now_heal_nothing(dropped: Lake) -> None:
    """A stricter rule holds a row and its copy: less copies, and as many dropped as before."""
    backfilled(dropped, gone=1, good=-1, duplicates=-1, quarantined={"late": 2})

    assert places(balance(SILVER, dropped)) == (192, 10, 50, 0)


def test_rows_that_come_from_the_quarantine_are_healed_as_well(dropped: Lake) -> None:
    """The sum of held ones says where they were."""
    backfilled(dropped, came=1, good=1, quarantined={"late": -1}, written=1)
    found = balance(SILVER, dropped)

    assert places(found) == (194, 11, 50, 1)
    assert found.quarantined == {}


def test_a_table_that_was_healed_and_made_anew_has_no_negative_counts(dropped: Lake) -> None:
    """What stands for all entries after an undo is the sheet, and a batch with less than no copies is a fault."""
    backfilled(dropped, came=50, good=50, duplicates=-50, written=50)

    one = summed(dropped.table(SILVER), "undo")

    assert (one.duplicates, one.dropped_by_watermark) == (11, 0)
    assert one.read == one.accounted
