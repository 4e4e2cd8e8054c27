"""A DuckLake shows the rows that a table has, and what it deletes are names of its own."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

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
