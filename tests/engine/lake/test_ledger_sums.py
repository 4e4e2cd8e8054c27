"""What entries add up to: what is in force, what never begins again, and what of a repair is of today's rows."""

import pytest

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.log.ledger import LOOKED_AGAIN, Entry
from strandline.engine.lake.log.ledger_sums import Sums, follow, sums_of
from strandline.engine.lake.read.open_table import opened
from tests.engine.written import BRONZE, SILVER, entry, numbers, written

pytestmark = pytest.mark.core

REPAIR = {"mode": "backfill", "since": "a", "until": "b"}


def summed(*entries: Entry) -> Sums:
    sums = Sums()
    for version, each in enumerate(entries):
        sums.add(version, each)
    return sums


def replacing(mark: str) -> Entry:
    return entry(SILVER, replaced=True, promoted=mark, read=9, good=9, written=9)


@pytest.mark.whole
def test_a_batch_that_replaces_all_begins_again_and_what_streams_received_goes_on() -> None:
    """A stream has received the rows that were replaced."""
    sums = summed(
        entry(SILVER, read=5, good=4, duplicates=1, written=4),
        entry(SILVER, batch=1, read=7, good=7, written=7, replaced=True),
        entry(SILVER, batch=2, read=1, good=1, written=1),
    )

    assert (sums.read, sums.good, sums.duplicates, sums.written) == (8, 8, 0, 8)
    assert (sums.batches, sums.replaced_at, sums.version) == (2, 1, 2)
    assert (sums.appended, sums.moved) == (12, 12)


def test_a_promotion_begins_a_generation_and_an_undo_gives_back_the_one_before() -> None:
    """Repairs are of the generation that they changed."""
    before, within = (entry(SILVER, stream=name, **REPAIR) for name in ("one", "two"))
    promoted = summed(before, replacing("m"), within)
    undone = summed(before, replacing("m"), within, replacing("undo m"))

    assert (promoted.begun, undone.begun) == (1, 0)
    assert {name: each.generation for name, each in undone.repairs.items()} == {"one": 0, "two": 1}


def test_entries_of_one_repair_are_summed() -> None:
    """A replay writes a quarantine in steps."""
    steps = [
        entry(SILVER, stream="r", quarantined={"late": -2, "other": 1}, gone=2, **REPAIR),
        entry(SILVER, stream="r", quarantined={"late": -1}, gone=1, **REPAIR),
    ]
    (repair,) = summed(entry(SILVER), *steps).repairs.values()

    assert (repair.first, repair.last, repair.moved) == (1, 2, 3)
    assert repair.held == {"late": -3, "other": 1}


def test_a_repeated_look_up_is_no_repair() -> None:
    """It has a range, and its rows are those that the table had."""
    again = entry(
        SILVER, mode=LOOKED_AGAIN, stream="again", since="a", looked={"silver.devices": 4}
    )
    sums = summed(entry(SILVER, looked={"silver.devices": 2}), again)

    assert sums.repairs == {}
    assert sums.right_until == 4
    assert summed(entry(SILVER, looked={"silver.devices": 2})).right_until == 2
    assert summed(entry(SILVER)).right_until == -1


def test_each_commit_is_added_once_and_maintenance_adds_nothing(anywhere: Place) -> None:
    """The lag of a stream is the difference of two sums that follow their logs."""
    sums, path = Sums(), anywhere
    follow(path, sums)
    assert (sums.read, sums.version) == (0, -1)
    for batch in range(2):
        written(anywhere, numbers(1), entry(BRONZE, batch=batch, read=10, written=8).encoded())
    written(anywhere, numbers(1), "maintenance")

    follow(path, sums)
    follow(path, sums)

    assert (sums.read, sums.written, sums.version) == (20, 16, 2)
    assert not sums.was_rewritten
    assert sums_of(path, 0).read == 10


def test_rows_that_a_foreign_commit_removes_are_noticed(anywhere: Place) -> None:
    """A new stream then begins with a snapshot, because the log alone no longer gives the rows."""
    written(anywhere, numbers(3), entry(BRONZE, read=3, written=3).encoded())
    opened(anywhere).delete("number = 0")

    assert sums_of(anywhere).was_rewritten
