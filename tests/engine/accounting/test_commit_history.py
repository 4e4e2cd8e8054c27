"""History holds every commit exactly once, whichever process writes it, however often, and however it ends."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from strandline.core.errors import TransientError
from strandline.engine.accounting import commit_history
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.commit_history import MANY, catch_up, read_on
from strandline.engine.accounting.history_queries import Batch, Past
from strandline.engine.lake.commit.delta_commit import ClaimedRows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.log.vacuum import cut
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.days import HOUR, NINE, TABLES, Came, commit, figures, morning, once, receive


@pytest.mark.whole
def test_a_catch_up_adds_each_commit_once_and_then_nothing(tmp_path: Path) -> None:
    """A second catch-up adds nothing; after one more commit it adds that one."""
    lake = morning(tmp_path)

    first = catch_up(lake, TABLES)
    second = catch_up(lake, TABLES)
    receive(lake, Came(at=NINE + 3 * HOUR, good=2), 3)
    third = catch_up(lake, TABLES)

    assert (first, second, third) == (9, 0, 1)
    counted = Counter((table, version, measure) for table, version, measure, _ in figures(lake))
    assert set(counted.values()) == {1}
    assert sum(v for t, _, m, v in figures(lake) if (t, m) == (BRONZE.id, "read")) == 16


@pytest.mark.whole
def test_history_has_the_figures_of_the_entry(tmp_path: Path) -> None:
    """Figures of the entry, those from the log beside it, and why an operator let the batch pass."""
    lake = morning(tmp_path)
    catch_up(lake, TABLES)

    first, second, third = Past(lake).last(SILVER, 10)

    assert {name: first.values[name] for name in ("read", "good", "duplicates", "quarantined")} == {
        "read": 5,
        "good": 3,
        "duplicates": 1,
        "quarantined": 1,
    }
    assert first.values["quarantined:late"] == 1
    assert (first.at, first.since, first.until) == (NINE, NINE, NINE)
    assert first.values["freshness_s"] == 0
    assert first.values["null:event_id"] == 0
    assert (second.values["broke:late"], second.values["failed:volume"]) == (1, 1)
    assert second.is_believed
    assert third.opened == "a known launch"
    assert not third.is_believed


@pytest.mark.whole
def test_a_day_in_history_adds_up_to_the_ledger(tmp_path: Path) -> None:
    """Two sources that differ would both be worthless."""
    lake = morning(tmp_path)
    again = entry(GOLD, batch=3, mode="batch", read=12, good=12, written=2, replaced=True)
    written(lake.table(GOLD), numbers(2), again.encoded(), mode="overwrite")
    catch_up(lake, TABLES)
    past = Past(lake)
    ever = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))

    for table in TABLES:
        sheet = balance(table, lake)
        hours = past.hours(table, *ever)
        for measure in ("read", "good", "duplicates"):
            assert sum(hour.value(measure) for hour in hours) == getattr(sheet, measure), table.id


def test_a_change_of_columns_shows_in_the_fingerprint(tmp_path: Path) -> None:
    """It changes at the commit that changed the columns, also when history begins in between."""
    lake = Lake(tmp_path)
    commit(lake, BRONZE, numbers(1), NINE)
    commit(lake, BRONZE, numbers(1), NINE + HOUR, batch=1)
    catch_up(lake, TABLES)
    commit(lake, BRONZE, numbers(1), NINE + 2 * HOUR, batch=2)
    DeltaTable(lake.table(BRONZE)).alter.add_columns(
        DeltaTable(_other(tmp_path / "other")).schema().fields
    )
    commit(lake, BRONZE, [{"number": 1, "colour": "red"}], NINE + 3 * HOUR, batch=3)

    catch_up(lake, TABLES)

    one, two, three, four = (batch.schema for batch in Past(lake).last(BRONZE, 10))
    assert one == two == three != ""
    assert four not in {one, ""}


def _other(path: Path) -> Path:
    written(path, [{"colour": "red"}])
    return path


@pytest.mark.whole
def test_a_table_that_was_created_again_begins_again(tmp_path: Path) -> None:
    """Its versions count from 0 again; the older ones stay in history, but do not belong to it."""
    lake = morning(tmp_path / "lake")
    catch_up(lake, TABLES)
    lake.table(GOLD).local.rename(tmp_path / "gone")
    commit(lake, GOLD, numbers(1), NINE + 5 * HOUR, read=7, good=7, written=1)

    added = catch_up(lake, TABLES)

    assert added == 1
    (only,) = Past(lake).last(GOLD, 10)
    assert only.values["read"] == 7
    assert len({v for t, v, _, _ in figures(lake) if t == GOLD.id}) == 3


@pytest.mark.whole
def test_maintenance_commits_are_skipped_and_read_only_once(tmp_path: Path) -> None:
    """OPTIMIZE has no entry; it must neither count nor be read again and again."""
    lake = morning(tmp_path)
    DeltaTable(lake.table(BRONZE)).optimize.compact()

    catch_up(lake, TABLES)

    before = DeltaTable(lake.history).version()
    assert catch_up(lake, TABLES) == 0
    assert DeltaTable(lake.history).version() == before


@pytest.mark.whole
def test_many_small_files_become_one_and_nothing_is_lost(tmp_path: Path) -> None:
    """A catch-up every minute would otherwise leave a file for each minute to open."""
    lake = morning(tmp_path)
    catch_up(lake, TABLES)
    for batch in range(MANY):
        commit(lake, GOLD, numbers(1), NINE, batch=3 + batch, read=1, good=1)
        catch_up(lake, [GOLD])

    assert len(DeltaTable(lake.history).file_uris()) < MANY
    assert len({v for t, v, _, _ in figures(lake) if t == GOLD.id}) == 3 + MANY
    assert catch_up(lake, TABLES) == 0


def test_rows_of_another_process_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both read the same ledgers; Delta refuses the second to commit, which reads again and finds nothing to add."""
    lake = morning(tmp_path)
    slow = ClaimedRows.append

    def overtaken(*words: Any, **named: Any) -> bool:  # noqa: ANN401  # what it was given
        monkeypatch.setattr(ClaimedRows, "append", slow)
        assert catch_up(lake, TABLES) == 9
        return slow(*words, **named)

    monkeypatch.setattr(ClaimedRows, "append", overtaken)

    assert catch_up(lake, TABLES) == 0
    assert len({(t, v) for t, v, _, _ in figures(lake)}) == 9
    assert len(figures(lake)) == len(set(figures(lake)))


@pytest.mark.whole
def test_a_long_past_is_added_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits of a year would not fit into memory, and a kill would lose all the work."""
    lake = morning(tmp_path)
    monkeypatch.setattr(commit_history, "SLICE", 2)

    assert catch_up(lake, TABLES) == 9
    assert once(lake)


@pytest.mark.whole
def test_a_past_that_left_the_log_is_added_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slice ends where Delta cannot open the table any more, because maintenance has cut its log."""
    lake, commits = Lake(tmp_path), 130
    path = lake.table(BRONZE)
    for batch in range(commits):
        receive(lake, Came(at=NINE + batch * HOUR, good=1), batch)
        if batch in {110, 120}:
            DeltaTable(path).create_checkpoint()
    assert cut(path, commits) == 100
    monkeypatch.setattr(commit_history, "SLICE", 50)

    assert catch_up(lake, [BRONZE]) == commits

    found = Past(lake).last(BRONZE, commits)
    assert [batch.version for batch in found] == [*range(commits)]
    assert len({batch.schema for batch in found}) == 1


@pytest.mark.whole
def test_processes_that_catch_up_with_other_tables_do_not_conflict(tmp_path: Path) -> None:
    """Each process claims only its own tables."""
    lake = morning(tmp_path)

    assert [catch_up(lake, [table]) for table in TABLES] == [3, 3, 3]


def test_an_entry_of_an_older_version_without_the_newer_fields_is_read(tmp_path: Path) -> None:
    """A lake is older than the code that reads it."""
    fields = json.loads(entry(BRONZE, read=2, good=2, written=2).encoded())
    old = {name: value for name, value in fields.items() if name not in {"cpu_ms", "came", "gone"}}
    written(tmp_path / "bronze" / BRONZE.name, numbers(2), json.dumps(old))

    assert catch_up(Lake(tmp_path), TABLES) == 1


@pytest.mark.whole
def test_points_are_those_of_the_batches(tmp_path: Path) -> None:
    """A gate learns from them."""
    lake = morning(tmp_path)
    catch_up(lake, TABLES)
    past = Past(lake)

    read = past.points(SILVER, "read", NINE + 9 * HOUR)
    held = past.points(SILVER, "share:quarantined", NINE + 2 * HOUR)

    assert [(p.value, p.is_believed) for p in read] == [(5, True), (4, True), (5, False)]
    assert [(p.at, p.value) for p in held] == [(NINE, 0.2), (NINE + HOUR, 0.0)]


def test_a_reader_that_may_write_nothing_reads_the_same_history(tmp_path: Path) -> None:
    """Before it was written at all, half written and whole: the commits that it lacks are read beside it, each once."""
    lake, tables = small_lake(tmp_path / "lake"), (BRONZE, SILVER, GOLD)

    def seen(past: Past) -> list[list[Batch]]:
        return [past.last(table, 10) for table in tables]

    unwritten = seen(read_on(lake, tables))
    assert not is_table(lake.history)
    catch_up(lake, [BRONZE])
    half = seen(read_on(lake, tables))
    catch_up(lake, tables)

    assert unwritten == half == seen(Past(lake)) == seen(read_on(lake, tables))
    assert [len(each) for each in unwritten] == [2, 1, 1]


def test_one_that_is_far_behind_is_refused_with_the_way_to_bring_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the history would be taken for all of it."""
    lake = small_lake(tmp_path / "lake")
    monkeypatch.setattr(commit_history, "SLICE", 1)

    with pytest.raises(TransientError, match="lacks more than 1 commits of bronze"):
        read_on(lake, [BRONZE])
    assert read_on(lake, [SILVER]).newest(SILVER) is not None
