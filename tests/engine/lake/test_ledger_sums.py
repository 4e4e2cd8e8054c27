"""What entries add up to: what is in force, what never begins again, and what of a repair is of today's rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import (
    LOOKED_AGAIN,
    Entry,
    is_table,
    latest_version,
    look_again,
    one_look,
)
from strandline.engine.lake.log.ledger_sums import Sums, follow, sums_of
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
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


def test_that_a_table_has_read_other_kinds_before_is_known_again_after_an_undo() -> None:
    """A rebuild has read all by one declaration; what an undo brings back has not."""
    read = [
        entry(SILVER, batch=n, versions={BRONZE: (n, n)}, takes=takes, routed_by="field('type')")
        for n, takes in enumerate(["'click'", "'click', 'visit'"])
    ]
    last = {"takes": read[-1].takes, "routed_by": read[-1].routed_by, "versions": {BRONZE: (0, 1)}}
    promoted, undone = (replace(replacing(mark), **last) for mark in ("m", "undo m"))  # type: ignore[arg-type]

    assert not summed(*read[:1], promoted).rerouted
    assert summed(*read).rerouted
    assert not summed(*read, promoted).rerouted
    assert summed(*read, promoted, undone).rerouted
    assert not summed(*read[:1], promoted, undone).rerouted


def test_kinds_of_which_records_are_deleted_are_fewer() -> None:
    """One that had no name by then is taken from the sum of the others; nothing falls below none."""
    by = {"routed_by": "field('type')", "offsets": {"t/0": (0, 20)}}
    came = entry(
        BRONZE,
        **by,
        read=20,
        kinds={"click": 5},
        unrouted={"refund": 8, "visit": 2},
        unrouted_more=4,
        kindless=1,
    )
    gone = entry(
        BRONZE,
        since="",
        unrouted={"refund": -3, "visit": -2, "pay": -1},
        unrouted_more=-2,
        kindless=-1,
    )

    found = summed(came, gone).by_kind
    assert found.unrouted == {"refund": 5}
    assert (found.taken, found.more, found.kindless) == ({"click": 5}, 1, 0)
    assert summed(came, gone, gone, gone).by_kind.more == 0


def test_items_of_records_are_no_part_of_what_is_summed_up() -> None:
    """Entries of before had them, and books that were closed then have not: an audit would find a difference that is none."""
    of_records = entry(SILVER, items=5)
    assert summed(of_records).items == 0
    assert summed(replace(of_records, table="gold.sold")).items == 5


def test_within_one_look_a_table_is_what_it_was_at_first(tmp_path: Path) -> None:
    """Its newest version and its sums alike; one that is made meanwhile is there, and who looks again sees what came."""
    place = Place.of(tmp_path / "silver" / "t")
    counts = {"read": 3, "good": 3, "written": 3}
    with one_look():
        assert not is_table(place)
        written(place, numbers(3), entry(SILVER, **counts).encoded())
        assert is_table(place)
        assert (latest_version(place), sums_of(place).read) == (0, 3)
        written(place, numbers(3), entry(SILVER, batch=1, **counts).encoded())
        assert (latest_version(place), sums_of(place).read) == (0, 3)
        look_again()
        assert (latest_version(place), sums_of(place).read) == (1, 6)
    written(place, numbers(3), entry(SILVER, batch=2, **counts).encoded())
    assert (latest_version(place), sums_of(place).read) == (2, 9)


def test_sums_end_before_a_commit_that_is_gone_within_a_look_as_without_one(tmp_path: Path) -> None:
    """What follows it proves nothing."""
    place = Place.of(tmp_path / "silver" / "t")
    for batch in range(4):
        one = entry(SILVER, batch=batch, read=3, good=3, written=3)
        written(place, numbers(3), one.encoded())
    commit_file(place, 2).remove_file()

    with one_look():
        within = sums_of(place)
    assert (within.version, within.read) == (1, 6)
    assert sums_of(place) == within
