"""A sheet shows the rows that a backfill added; no reader has to decode a negative count."""

import pytest

from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.flow.shadow_lake import summed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.engine.proof.day_verdicts import sheet
from tests.engine.written import BRONZE, SILVER, entry, numbers, small_lake, written

pytestmark = pytest.mark.core

RANGE = {"mode": "backfill", "since": "2026-11-20", "until": "2026-11-21"}


def places(found: Balance) -> tuple[int, int, int, int]:
    return (found.good, found.duplicates, found.dropped_by_watermark, found.healed)


def backfilled(lake: Lake, **fields: object) -> Entry:
    """Commit the changes of a backfill, with as many rows as its entry has."""
    change = entry(SILVER, **RANGE, **fields)
    written(lake.table(SILVER), numbers(change.written), change.encoded())
    return change


@pytest.fixture
def dropped(anywhere: Place) -> Lake:
    """Return a lake in which silver's state dropped 50 rows of 250, after five of a sound start."""
    lake = small_lake(anywhere)
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


def test_dropped_rows_that_a_backfill_added_are_healed(dropped: Lake) -> None:
    """They are in the table, so they are no longer dropped, and the number of copies is not negative."""
    before = balance(SILVER, dropped)

    backfilled(dropped, came=50, good=50, duplicates=-50, written=50)
    after = balance(SILVER, dropped)

    assert places(before) == (193, 11, 50, 0)
    assert places(after) == (243, 11, 0, 50)
    assert after.read == after.good + after.duplicates + 1 + after.dropped_by_watermark
    assert after.balanced, after.faults
    assert sheet(after).healed == 50


@pytest.mark.whole
def test_copies_that_are_held_back_later_heal_nothing(dropped: Lake) -> None:
    """A stricter rule holds a row and its copy back: fewer copies, and as many dropped as before."""
    backfilled(dropped, gone=1, good=-1, duplicates=-1, quarantined={"late": 2})

    assert places(balance(SILVER, dropped)) == (192, 10, 50, 0)


def test_rows_that_come_from_the_quarantine_are_healed_as_well(dropped: Lake) -> None:
    """The number of held rows shows where they were."""
    backfilled(dropped, came=1, good=1, quarantined={"late": -1}, written=1)
    found = balance(SILVER, dropped)

    assert places(found) == (194, 11, 50, 1)
    assert found.quarantined == {}


def test_a_healed_and_rebuilt_table_has_no_negative_counts(dropped: Lake) -> None:
    """After an undo one entry replaces all others by the sheet's figures, and a negative number of copies is a fault."""
    backfilled(dropped, came=50, good=50, duplicates=-50, written=50)

    one = summed(dropped.table(SILVER), "undo")

    assert (one.duplicates, one.dropped_by_watermark) == (11, 0)
    assert one.read == one.accounted


def test_what_an_upper_operator_refused_is_in_the_sum_of_a_promotion_and_of_an_undo(
    dropped: Lake,
) -> None:
    """Those rows are nowhere still; of drops whose range is known for some only, the sum has no range."""
    refused = entry(SILVER, batch=2, read=2, good=2, written=2, dropped_above={"aggregates": 2})
    written(dropped.table(SILVER), numbers(2), refused.encoded())
    known = entry(SILVER, batch=3, read=1, dropped_by_watermark=1, dropped_between=(1, 2))
    written(dropped.table(SILVER), [], known.encoded())

    one = summed(dropped.table(SILVER), "undo")

    assert one.dropped_above == {"aggregates": 2}
    assert (one.dropped_by_watermark, one.dropped_between) == (51, None)
