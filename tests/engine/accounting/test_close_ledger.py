"""Each entry of a ledger is copied once, also when several close the books at once, or one is killed."""

from random import Random
from threading import Thread

import pytest

from strandline.engine.accounting import table_books
from strandline.engine.accounting.table_books import close, close_or_reason, texts
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.ledger_sums import name_of, snapshot, snapshot_file
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.ledgers import histories, made, write_log

pytestmark = pytest.mark.core

TABLES = (BRONZE, SILVER, GOLD)


@pytest.fixture
def lake(anywhere: Place) -> Lake:
    """Return a lake with three tables and their histories."""
    lake = Lake(anywhere)
    made(lake, histories(40, Random(11)))  # noqa: S311  # a test's own
    return lake


def copies(lake: Lake) -> list[tuple[str, int, str]]:
    rows = opened(lake.closed_entries).to_pyarrow_table().to_pylist()
    return sorted((row["table"], row["version"], row["entry"]) for row in rows)


def originals(lake: Lake) -> list[tuple[str, int, str]]:
    paths = [lake.table(table) for table in TABLES]
    return sorted(
        (name_of(path), *each) for path in paths for each in texts(path, 0, latest_version(path))
    )


@pytest.mark.whole
def test_all_entries_are_copied_as_they_are_in_the_log(lake: Lake) -> None:
    """A commit of maintenance has none."""
    closed = close(lake, TABLES, every=1)

    assert copies(lake) == originals(lake)
    assert {each.table: each.entries for each in closed} == {
        table.id: sum(name == table.id for name, *_ in originals(lake)) for table in TABLES
    }


@pytest.mark.whole
def test_books_with_few_new_commits_stay_open(lake: Lake) -> None:
    """To close them costs more than to read them."""
    assert close(lake, TABLES, every=1_000) == []
    assert not snapshot_file(lake.table(BRONZE)).exists()
    close(lake, TABLES, every=1)

    assert close(lake, TABLES, every=1) == []


@pytest.mark.whole
def test_books_that_cannot_be_closed_fail_no_run(anywhere: Place) -> None:
    """Here the table of the copies has a log that is none."""
    old = Lake(anywhere / "old")
    write_log(old.table(BRONZE), histories(1_100, Random(2))[BRONZE])  # noqa: S311  # a test's own
    commit_file(old.closed_entries, 0).put("torn")

    assert close_or_reason(BRONZE, old)
    old.closed_entries.remove()
    assert not close_or_reason(BRONZE, old)
    assert snapshot_file(old.table(BRONZE)).exists()


@pytest.mark.whole
def test_entries_are_copied_in_slices(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first close of an old lake would not fit into memory."""
    monkeypatch.setattr(table_books, "SLICE", 7)
    close(lake, TABLES, every=1)

    assert copies(lake) == originals(lake)


@pytest.mark.whole
def test_a_close_that_was_killed_after_its_copies_is_repeated_without_them(lake: Lake) -> None:
    """The snapshot is written last; without it the next close copies nothing twice."""
    close(lake, TABLES, every=1)
    before = snapshot(lake.table(SILVER))
    snapshot_file(lake.table(SILVER)).remove()

    (closed,) = close(lake, TABLES, every=1)

    assert (closed.table, closed.entries) == (SILVER.id, 0)
    assert snapshot(lake.table(SILVER)) == before
    assert copies(lake) == originals(lake)


def test_two_that_close_at_once_copy_each_entry_once(lake: Lake) -> None:
    """A stream and a run may do so in the same second."""
    threads = [Thread(target=close, args=(lake, TABLES, 1)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    close(lake, TABLES, every=1)

    assert copies(lake) == originals(lake)
    assert all(snapshot_file(lake.table(table)).exists() for table in TABLES)


@pytest.mark.whole
def test_books_of_a_table_that_was_created_again_are_not_those_of_the_new_one(lake: Lake) -> None:
    """Its versions count from 0, and its entries are others."""
    close(lake, TABLES, every=1)
    lake.table(SILVER).remove()
    write_log(lake.table(SILVER), histories(60, Random(12))[SILVER])  # noqa: S311  # a test's own

    assert snapshot(lake.table(SILVER)).sums.version == -1


@pytest.mark.whole
def test_books_that_are_ahead_of_a_restored_table_are_not_used(lake: Lake) -> None:
    """A copy of the table from yesterday has fewer commits, and later on other ones."""
    close(lake, TABLES, every=1)
    path = lake.table(BRONZE)
    last = snapshot(path).sums.version
    file = path / "_delta_log" / f"{last:020d}.json"
    text = file.text() or ""
    file.remove()

    assert snapshot(path).sums.version == -1
    file.put(text.replace("WRITE", "DELETE"))
    assert snapshot(path).sums.version == -1


@pytest.mark.whole
@pytest.mark.parametrize("torn", ["", "{", '{"format": 1}', '{"format": 99}', "[]"])
def test_a_torn_snapshot_is_as_none(torn: str, lake: Lake) -> None:
    """Then the entries are read from the first on, and the books are closed again."""
    close(lake, TABLES, every=1)
    before = snapshot(lake.table(GOLD))
    snapshot_file(lake.table(GOLD)).put(torn)

    assert snapshot(lake.table(GOLD)).sums.version == -1
    close(lake, TABLES, every=1)
    assert snapshot(lake.table(GOLD)) == before
