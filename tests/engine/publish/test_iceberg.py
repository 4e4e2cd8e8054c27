"""An Iceberg catalog shows the rows that a table has, to readers of another making, whatever the table went through."""

import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files, rewrite_times
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.publish import catalogs
from strandline.engine.publish import iceberg as module
from strandline.engine.publish.catalogs import InCatalog, books, dropped, lags, sync
from strandline.engine.publish.iceberg import KEPT, IcebergCatalog
from strandline.engine.runtime import clock
from tests.support import lakes
from tests.support.by_hand import as_before
from tests.support.events import TABLE, sent
from tests.support.iceberg_server import IcebergServer, running
from tests.support.readers import by_duckdb_in, by_pyiceberg, by_us, rows_of
from tests.support.rows import NOON

TABLES: Sequence[Table] = (TABLE,)
"""All tables of the example are compared in tests/e2e/test_readers.py."""

SOON = datetime(2030, 1, 1, tzinfo=UTC)
EVERY = Choice(before_ms=2**62)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    with running(tmp_path_factory.mktemp("iceberg")) as found:
        yield found


@pytest.fixture
def catalog(server: IcebergServer, lake: Lake) -> Iterator[IcebergCatalog]:
    """Return the catalog, in which nothing of the lake is left for the next test."""
    if not server.answers():
        server.up()
    found = IcebergCatalog(server.address, {})
    yield found
    if not server.answers():
        server.up()
    [*dropped(found, [each.id for each in TABLES], lake)]


def synced(
    catalog: IcebergCatalog, lake: Lake, tables: Sequence[Table] = TABLES
) -> dict[str, tuple[InCatalog, bool]]:
    found = sync(catalog, tables, lake, clock.now)
    return {name: (entry, is_news) for name, entry, is_news in found}


def equal(server: IcebergServer, lake: Lake, tables: Sequence[Table] = TABLES) -> Counter[str]:
    """See that both readers find the rows that the lake has; return those of the last table."""
    expected = Counter[str]()
    for table in tables:
        rows = by_us(lake.table(table))
        for is_py, read in ((True, by_pyiceberg), (False, by_duckdb_in)):
            expected = rows_of(rows, by_pyiceberg=is_py)
            found = rows_of(read(server.address, table.layer, table.name), by_pyiceberg=is_py)
            assert found == expected, f"{read.__name__} of {table.id}"
    return expected


def snapshots(server: IcebergServer, table: Table) -> list[str]:
    """Return what each snapshot of a table did."""
    found = load_catalog("t", type="rest", uri=server.address).load_table((table.layer, table.name))
    return [str(each.summary.operation.value) for each in found.metadata.snapshots if each.summary]


def test_rows_are_equal_and_a_sync_without_news_changes_nothing(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake
) -> None:
    first = synced(catalog, lake)
    assert all(is_news for _, is_news in first.values())
    assert equal(server, lake)
    assert snapshots(server, TABLE) == ["append"]

    again = synced(catalog, lake)

    assert not any(is_news for _, is_news in again.values())
    assert snapshots(server, TABLE) == ["append"]
    assert {each.versions for each in lags(lake, clock.now())} == {0}
    assert {each.seconds for each in lags(lake, clock.now())} == {0.0}


def test_what_a_table_goes_through_is_followed(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake
) -> None:
    synced(catalog, lake)
    for number in range(3, 9):
        sent(lake, number)
    (behind,) = [each for each in lags(lake, clock.now()) if each.table == TABLE.id]
    assert behind.versions == 6
    assert behind.seconds > 0
    synced(catalog, lake)
    equal(server, lake)

    for table in TABLES:
        [*merge_files(lake.table(table), EVERY, SOON)]
    synced(catalog, lake)

    equal(server, lake)
    assert snapshots(server, TABLE) == ["append", "append", "overwrite"]
    as_ours = load_catalog("t", type="rest", uri=server.address).load_table(("bronze", TABLE.name))
    assert as_ours.properties["gc.enabled"] == "false"
    assert as_ours.properties["strandline.layer"] == "bronze"
    assert as_ours.properties["comment"]
    files = as_ours.inspect.files()
    assert len(files) < 9


def test_a_filter_skips_no_file_that_has_such_a_row(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake
) -> None:
    """Delta cuts the times of its statistics; what a reader skips by must hold all the same."""
    synced(catalog, lake)
    found = load_catalog("t", type="rest", uri=server.address).load_table(("bronze", TABLE.name))
    for number in range(3):
        at = NOON + timedelta(hours=2 * number)
        assert len(found.scan(row_filter=f"_arrived_at = '{at.isoformat()}'").to_arrow()) == 4
        one = found.scan(row_filter=f"_offset = {4 * number + 1}")
        assert len(one.to_arrow()) == len([*one.plan_files()]) == 1
    later = (NOON + timedelta(days=9)).isoformat()
    assert [*found.scan(row_filter=f"_arrived_at > '{later}'").plan_files()] == []


def test_a_masked_column_is_not_published(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = ["_headers", "_payload"]
    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "hidden", lambda *_: frozenset(secret))
        ((entry, _),) = synced(catalog, lake).values()
        assert entry.hidden == secret
        sent(lake, 3)
        synced(catalog, lake)
    assert [each.hidden for each in lags(lake, clock.now())] == [tuple(secret)]
    for read in (by_pyiceberg, by_duckdb_in):
        rows = read(server.address, "bronze", TABLE.name)
        assert not {*secret} & {*rows.column_names}
        assert rows_of(rows) == rows_of(by_us(lake.table(TABLE)).drop_columns(secret))

    synced(catalog, lake)

    assert equal(server, lake)


@pytest.mark.whole
@pytest.mark.slow
def test_a_catalog_that_is_dead_or_slow_is_only_behind(
    server: IcebergServer,
    catalog: IcebergCatalog,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced(catalog, lake)
    server.kill()
    with pytest.raises(TransientError, match="does not answer"):
        synced(catalog, lake)
    sent(lake, 3)
    assert "does not answer" in books(lake, "iceberg").away
    assert all("does not answer" in each.why for each in lags(lake, clock.now()))
    server.up()

    monkeypatch.setattr(module, "WAITS", 1.0)
    server.pause(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(TransientError, match="does not answer"):
        synced(IcebergCatalog(server.address, {}), lake)
    assert time.monotonic() - began < 60
    server.pause(signal.SIGCONT)

    synced(catalog, lake)
    assert books(lake, "iceberg").away == ""
    assert equal(server, lake)


def test_a_table_of_another_lake_is_left_alone(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, tmp_path: Path
) -> None:
    synced(catalog, lake)
    lakes.copy(lake.root, Place.of(tmp_path / "other"))
    other = Lake(Place.of(tmp_path / "other"))
    (other.catalogs / "iceberg.json").remove()

    found = synced(catalog, other)

    assert all("of the lake" in entry.why for entry, _ in found.values())
    assert [*dropped(catalog, [TABLE.id], other)] == []
    assert equal(server, lake)


def test_files_of_before_come_when_they_are_written_again(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake
) -> None:
    path = lake.table(TABLE)
    as_before(path)
    ((entry, _),) = synced(catalog, lake, [TABLE]).values()
    assert "3 files of bronze.device_telemetry are of before" in entry.why
    assert [each.shown for each in lags(lake, clock.now())] == [None]

    [*rewrite_times(path, EVERY, SOON)]
    ((entry, _),) = synced(catalog, lake, [TABLE]).values()

    assert entry.why == ""
    assert equal(server, lake, [TABLE])


@pytest.mark.whole
@pytest.mark.slow
def test_what_iceberg_has_written_does_not_grow(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MANIFESTS", 8)
    folder = server.warehouse / "bronze" / TABLE.name / "metadata"
    counts = []
    for number in range(3, 3 + 4 * KEPT):
        sent(lake, number, count=1)
        synced(catalog, lake, [TABLE])
        counts.append(len([*folder.iterdir()]))
    assert len(snapshots(server, TABLE)) <= 2 * KEPT
    later, before = counts[-KEPT + 1 :], counts[-2 * KEPT + 1 : -KEPT]
    assert max(later) - max(before) < KEPT / 2, (
        "one file a sync would be ten more than a round before"
    )
    assert equal(server, lake, [TABLE])


def test_a_table_that_was_made_anew_and_one_that_was_dropped(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake
) -> None:
    synced(catalog, lake, [TABLE])
    files = sorted(lake.table(TABLE).local.glob("*.parquet"))
    assert [*dropped(catalog, [TABLE.id], lake)] == [TABLE.id]
    assert sorted(lake.table(TABLE).local.glob("*.parquet")) == files
    assert books(lake, "iceberg").tables == {}
    synced(catalog, lake, [TABLE])
    assert equal(server, lake, [TABLE])

    lake.table(TABLE).remove()
    sent(lake, 0, count=2)
    synced(catalog, lake, [TABLE])

    assert latest_version(lake.table(TABLE)) == 1
    assert sum(equal(server, lake, [TABLE]).values()) == 2


def test_no_catalog_is_asked_where_nothing_may_be_shown(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address at which nothing answers is not reached."""
    every = frozenset(by_us(lake.table(TABLE)).column_names)
    monkeypatch.setattr(catalogs, "hidden", lambda *_: every)
    ((entry, is_news),) = synced(IcebergCatalog("http://127.0.0.1:9", {}), lake).values()
    assert not is_news
    assert "all columns of bronze.device_telemetry are masked" in entry.why


def test_a_refusal_is_no_outage(catalog: IcebergCatalog) -> None:
    with (
        pytest.raises(DefinitionError, match="refuses"),
        module._explained(catalog.place),
    ):
        raise module.UnauthorizedError("no token")
