"""A DuckLake shows the rows that a table has, and what it deletes are names of its own."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.lake import Lake
from strandline.engine.publish import catalogs, ducklake
from strandline.engine.publish.catalogs import InCatalog, books, dropped, lags, sync
from strandline.engine.publish.ducklake import DuckLakeCatalog
from strandline.engine.runtime import clock
from tests.support.events import TABLE, sent
from tests.support.readers import by_us, duck, in_ducklake, rows_of

ALL = Choice(before_ms=2**62)
SOON = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> DuckLakeCatalog:
    return DuckLakeCatalog(str(tmp_path / "shown.ducklake"))


def synced(
    catalog: DuckLakeCatalog, lake: Lake, tables: Sequence[Table] = (TABLE,)
) -> tuple[InCatalog, bool]:
    ((_, entry, is_news),) = sync(catalog, tables, lake, clock.now)
    return entry, is_news


def equal(catalog: DuckLakeCatalog, lake: Lake, without: Sequence[str] = ()) -> int:
    found = in_ducklake(catalog.place, TABLE.layer, TABLE.name)
    expected = by_us(lake.table(TABLE)).drop_columns([*without])
    assert rows_of(found) == rows_of(expected)
    return int(found.num_rows)


def test_what_a_table_goes_through_is_followed(catalog: DuckLakeCatalog, lake: Lake) -> None:
    assert synced(catalog, lake)[1]
    assert equal(catalog, lake) == 12
    assert not synced(catalog, lake)[1], "no news"
    sent(lake, 3)
    assert [each.versions for each in lags(lake, clock.now())] == [1]
    synced(catalog, lake)
    assert equal(catalog, lake) == 16

    for number in range(4, 9):
        sent(lake, number)
    assert [*merge_files(lake.table(TABLE), ALL, SOON)]
    synced(catalog, lake)

    assert equal(catalog, lake) == 36
    assert [each.versions for each in lags(lake, clock.now())] == [0]


def test_what_it_deletes_are_its_own_names(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged, expired and cleaned up by another program, it deletes what it was given."""
    monkeypatch.setattr(ducklake, "KEPT", "INTERVAL 0 SECOND")
    files = sorted(lake.table(TABLE).local.glob("*.parquet"))
    synced(catalog, lake)
    with duck("ducklake") as user:
        user.execute(f"ATTACH 'ducklake:{catalog.place}' AS shown")
        user.execute("CALL ducklake_merge_adjacent_files('shown')")
        user.execute("CALL ducklake_expire_snapshots('shown', older_than => now())")
        user.execute("CALL ducklake_cleanup_old_files('shown', cleanup_all => true)")
    assert sorted(lake.table(TABLE).local.glob("*.parquet")) == files
    assert equal(catalog, lake) == 12

    sent(lake, 3)
    synced(catalog, lake)
    assert equal(catalog, lake) == 16
    assert [*dropped(catalog, [TABLE.id], lake)] == [TABLE.id]

    names = Path(f"{catalog.place}.files")
    assert [*names.rglob("*.parquet")] == []
    assert len([*lake.table(TABLE).local.glob("*.parquet")]) == len(files) + 1
    assert books(lake, "ducklake").tables == {}


def test_a_masked_column_is_not_published(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = ["_headers", "_payload"]
    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "hidden", lambda *_: frozenset(secret))
        assert synced(catalog, lake)[0].hidden == secret
    assert equal(catalog, lake, secret) == 12
    synced(catalog, lake)
    assert equal(catalog, lake) == 12


def test_a_table_of_which_nothing_may_be_seen_any_more_is_taken_out(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(catalog, lake)
    every = frozenset(by_us(lake.table(TABLE)).column_names)
    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "hidden", lambda *_: every)
        entry, is_news = synced(catalog, lake)
        assert (entry.version, is_news, entry.is_kept_back) == (-1, False, True)
        with pytest.raises(duckdb.CatalogException, match="does not exist"):
            in_ducklake(catalog.place, TABLE.layer, TABLE.name)
        assert [each.versions for each in lags(lake, clock.now())] == [0]
    assert synced(catalog, lake)[1]
    assert equal(catalog, lake) == 12


def test_one_that_another_program_has_open_is_only_behind(
    catalog: DuckLakeCatalog, lake: Lake
) -> None:
    Path(catalog.place).write_text("no database")
    with pytest.raises(TransientError, match="does not answer"):
        synced(catalog, lake)
    assert "does not answer" in books(lake, "ducklake").away
    Path(catalog.place).unlink()
    synced(catalog, lake)
    assert equal(catalog, lake) == 12


KILLED = """
import os, signal, sys
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.publish import ducklake
from strandline.engine.publish.catalogs import sync
from strandline.engine.runtime import clock
from tests.support.events import TABLE
ducklake._comment = lambda _: os.kill(os.getpid(), signal.SIGKILL)
file, root = sys.argv[1:]
[*sync(ducklake.DuckLakeCatalog(file), [TABLE], Lake(Place.of(root)), clock.now)]
"""
"""A sync that is killed in its transaction, when the files have their names."""


def named(catalog: DuckLakeCatalog) -> int:
    """Return how many second names there are."""
    return len([*Path(f"{catalog.place}.files").rglob("*.parquet")])


def test_names_that_a_killed_sync_gave_go_with_the_next(
    catalog: DuckLakeCatalog, lake: Lake
) -> None:
    """A name of which no database knows would keep what is forgotten for ever."""
    synced(catalog, lake)
    sent(lake, 3)
    child = [sys.executable, "-c", KILLED, catalog.place, str(lake.root)]
    assert subprocess.run(child, check=False).returncode == -signal.SIGKILL
    assert named(catalog) == 4, "one of them is unknown"

    synced(catalog, lake)

    assert named(catalog) == 4
    assert equal(catalog, lake) == 16
    assert len([*lake.table(TABLE).local.glob("*.parquet")]) == 4
    assert not Path(f"{catalog.place}.naming").exists()


def test_what_went_goes_there_though_nothing_comes(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3, 9):
        sent(lake, number)
    synced(catalog, lake)
    assert [*merge_files(lake.table(TABLE), ALL, SOON)]
    synced(catalog, lake)
    assert named(catalog) > 9, "an hour long"
    monkeypatch.setattr(ducklake, "KEPT", "INTERVAL 0 SECOND")
    assert not synced(catalog, lake)[1], "no news"
    assert named(catalog) < 9
    assert equal(catalog, lake) == 36


def test_a_column_that_is_masked_later_is_in_no_snapshot(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(catalog, lake)
    with duck("ducklake") as user:
        user.execute(f"ATTACH 'ducklake:{catalog.place}' AS shown (READ_ONLY)")
        ((last,),) = user.execute("SELECT max(snapshot_id) FROM shown.snapshots()").fetchall()
        past = f"SELECT _payload FROM shown.{TABLE.layer}.{TABLE.name} AT (VERSION => {last})"  # noqa: S608  # our own
        assert len(user.execute(past).fetchall()) == 12
    monkeypatch.setattr(catalogs, "hidden", lambda *_: frozenset({"_payload"}))
    synced(catalog, lake)
    with duck("ducklake") as user:
        user.execute(f"ATTACH 'ducklake:{catalog.place}' AS shown (READ_ONLY)")
        with pytest.raises(duckdb.Error, match=r"No snapshot|not found"):
            user.execute(past)
    assert equal(catalog, lake, ["_payload"]) == 12


def test_a_table_that_it_does_not_take_stops_no_other(
    catalog: DuckLakeCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ducklake, "_columns", lambda *_: "a NO_SUCH_TYPE")
        entry, _ = synced(catalog, lake)
    assert "does not take it: Catalog Error: Type with name NO_SUCH_TYPE" in entry.why
    assert named(catalog) == 0
    assert synced(catalog, lake)[1]


def test_a_name_of_a_column_may_have_any_letters(catalog: DuckLakeCatalog, lake: Lake) -> None:
    names = ['with "quotes"', "a.b", "ü c", "n" * 200]
    lake.table(TABLE).remove()
    path = str(lake.table(TABLE))
    write_deltalake(path, pa.table({each: [1, 2] for each in names}))
    assert synced(catalog, lake)[0].why == ""
    found = in_ducklake(catalog.place, TABLE.layer, TABLE.name)
    assert {each: found[each].to_pylist() for each in names} == {each: [1, 2] for each in names}
