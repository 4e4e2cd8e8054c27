"""An audit believes no snapshot: what was changed after the books were closed is a fault that it names."""

import json
from collections.abc import Callable

import pytest

from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.table_books import close, entry_columns, subject_of
from strandline.engine.lake.commit.delta_commit import ClaimedRows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import name_of, snapshot_file
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written

pytestmark = pytest.mark.core

TABLES = (BRONZE, SILVER, GOLD)


@pytest.fixture
def lake(anywhere: Place) -> Lake:
    """Return a lake that balances, with closed books and a batch after them."""
    lake = small_lake(anywhere)
    close(lake, TABLES, every=1)
    more = entry(BRONZE, batch=2, offsets={"0": (5, 7)}, read=2, good=2, written=2)
    written(lake.table(BRONZE), numbers(2), more.encoded())
    read = entry(SILVER, batch=1, versions={BRONZE.id: (2, 2)}, read=2, good=2, written=2)
    written(lake.table(SILVER), numbers(2), read.encoded())
    return lake


def faults(lake: Lake, table: Table) -> str:
    return "\n".join(balance(table, lake, audited=True).faults)


@pytest.mark.whole
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_sound_books_are_the_same_audited_or_not(table: Table, lake: Lake) -> None:
    """Otherwise the other tests would prove nothing."""
    assert balance(table, lake, audited=True) == balance(table, lake)
    assert balance(table, lake).balanced


def closed(path: Place, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    """Change what was closed."""
    found = json.loads(snapshot_file(path).text() or "")
    change(found)
    snapshot_file(path).put(json.dumps(found))


@pytest.mark.whole
def test_sums_that_were_changed_are_a_fault(lake: Lake) -> None:
    """A reader of the snapshot would take them for true."""
    closed(lake.table(SILVER), lambda found: found["sums"].update(good=2, duplicates=2))

    assert balance(SILVER, lake).duplicates == 2
    assert "`good` up to version 0 is 3, but 2 was closed" in faults(lake, SILVER)


@pytest.mark.whole
def test_sums_of_a_quarantine_that_were_changed_are_a_fault_of_its_table(lake: Lake) -> None:
    """They decide which of its records are held."""
    closed(lake.quarantine(SILVER), lambda found: found["sums"].update(generations=[0, 3]))

    assert "`generations` up to version 0 is [0], but [0, 3] was closed" in faults(lake, SILVER)


def test_sums_of_sources_that_were_changed_are_a_fault(lake: Lake) -> None:
    """They would hide rows that were never read."""
    wrong = {BRONZE.id: {"version": 1, "written": 5, "appended": 9, "more": 0}}
    closed(lake.table(SILVER), lambda found: found["sheet"].update(sources=wrong))

    assert "`sources` up to version 0 is " in faults(lake, SILVER)


def test_an_entry_that_was_changed_after_the_books_were_closed_is_a_fault(lake: Lake) -> None:
    """Its sums may be the same: here only the batch has another number."""
    file = lake.table(BRONZE) / "_delta_log" / f"{0:020d}.json"
    file.put((file.text() or "").replace('\\"batch\\":0', '\\"batch\\":9'))

    assert balance(BRONZE, lake).balanced
    assert "an entry up to version 1 was changed after the books were closed" in faults(
        lake, BRONZE
    )
    assert "the copied entries of versions 0 to 1 are not those of its log" in faults(lake, BRONZE)


def test_an_entry_that_was_copied_twice_is_a_fault(lake: Lake) -> None:
    """No close does so, but another program might write there."""
    path = lake.table(GOLD)
    copies = ClaimedRows(lake.closed_entries, entry_columns)
    row = {"table": name_of(path), "log": table_id(path), "version": 0, "entry": "{}"}
    copies.append([row], {subject_of(path): 1})

    assert "the copied entries of versions 0 to 1 are not those of its log" in faults(lake, GOLD)
