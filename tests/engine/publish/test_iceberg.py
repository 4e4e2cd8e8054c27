"""An Iceberg catalog shows the rows that a table has, to readers of another making, whatever the table went through."""

import signal
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError, UnauthorizedError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import TimestamptzType

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files, rewrite_times
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.publish import catalogs
from strandline.engine.publish import iceberg as module
from strandline.engine.publish.by_settings import bring_up_to_date
from strandline.engine.publish.catalogs import InCatalog, Position, books, dropped, lags, sync
from strandline.engine.publish.iceberg import KEPT, IcebergCatalog
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from tests.support import lakes, unity_server
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


def test_a_column_that_is_masked_later_is_in_no_snapshot_and_in_no_bound(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of an older snapshot sees the columns that it had."""
    synced(catalog, lake)
    sent(lake, 3)
    synced(catalog, lake)
    before = _loaded(server)
    (number,) = [each.field_id for each in before.schema().fields if each.name == "_offset"]
    assert all(number in each.lower_bounds for each in module._files(before).values())

    monkeypatch.setattr(catalogs, "hidden", lambda *_: frozenset({"_offset"}))
    with monkeypatch.context() as patch:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(module, "_expire", dies)  # killed between what it commits
        with pytest.raises(KeyboardInterrupt):
            synced(catalog, lake)
    sent(lake, 4)
    synced(catalog, lake)

    after = _loaded(server)
    assert after.metadata.snapshots
    for each in after.metadata.snapshots:
        assert "_offset" not in after.scan(snapshot_id=each.snapshot_id).to_arrow().column_names
    assert not any(number in each.lower_bounds for each in module._files(after).values())
    gone = {each.manifest_list for each in before.metadata.snapshots}
    assert not any(Path(each.removeprefix("file://")).exists() for each in gone)
    assert not synced(catalog, lake)[TABLE.id][1]


def test_one_that_was_masked_by_an_older_version_is_mended_by_the_next_sync(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(catalog, lake)
    monkeypatch.setattr(catalogs, "hidden", lambda *_: frozenset({"_topic"}))
    with monkeypatch.context() as patch:
        patch.setattr(module, "_showing", lambda *_: set())
        synced(catalog, lake)
    old = _loaded(server)
    (first,) = old.metadata.snapshots
    assert "_topic" in old.scan(snapshot_id=first.snapshot_id).to_arrow().column_names

    assert synced(catalog, lake)[TABLE.id][1]

    found = _loaded(server)
    assert first.snapshot_id not in {each.snapshot_id for each in found.metadata.snapshots}
    assert not synced(catalog, lake)[TABLE.id][1]


def _loaded(server: IcebergServer) -> IcebergTable:
    client = load_catalog("t", type="rest", uri=server.address)
    return client.load_table((TABLE.layer, TABLE.name))


def test_a_catalog_is_asked_for_what_may_not_be_shown_whatever_the_books_say(
    server: IcebergServer, catalog: IcebergCatalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the request that showed it was lost, or the lake was restored."""
    synced(catalog, lake)
    (lake.catalogs / "iceberg.json").remove()
    every = frozenset(by_us(lake.table(TABLE)).column_names)
    monkeypatch.setattr(catalogs, "hidden", lambda *_: every)
    ((entry, is_news),) = synced(catalog, lake).values()
    assert not is_news
    assert "all columns of bronze.device_telemetry are masked" in entry.why
    with pytest.raises(NoSuchTableError):
        _loaded(server)


def test_a_file_whose_rows_nothing_counted_is_not_an_empty_one(lake: Lake) -> None:
    """Another tool wrote it; readers skip a file of no rows."""
    path = lake.table(TABLE)
    file = str(min(path.local.glob("*.parquet")))
    found = module._entry(file, {"size": 1, "partitionValues": {}}, {})
    assert found.record_count == 4


def test_a_time_of_a_folder_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        found = module._value(TimestamptzType(), NOON.strftime("%Y-%m-%d %H:%M:%S"), timedelta())
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == int(NOON.timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("code", "body", "kind", "why"),
    [
        (200, b"<html>welcome</html>", DefinitionError, "not understood: ValidationError"),
        (200, b'{"defaults": {}, "overr', DefinitionError, "not understood: ValidationError"),
        (501, b"", DefinitionError, "not understood: NotImplementedError"),
        (400, b"", DefinitionError, "does not take a table"),
        (302, b"", TransientError, "does not answer: Exceeded 0 redirects"),
        (429, b"slow down", TransientError, "does not answer"),
        (500, b"<html>", TransientError, "does not answer"),
    ],
)
def test_whatever_it_answers_is_said_and_ends_no_maintenance(
    lake: Lake, code: int, body: bytes, kind: type[LakeError], why: str
) -> None:
    """A server of another interface answers here, or one at fault."""
    with unity_server.running() as odd, unity_server.running() as elsewhere:
        odd.headers = {"Location": elsewhere.address}
        odd.answers.append((code, body))
        target = IcebergCatalog(odd.address, {"token": "secret"})
        with pytest.raises(kind, match=why) as found, module._explained(target.place):
            assert target._client.properties
        assert "secret" not in found.value.message
        assert elsewhere.asked == []

        odd.answers.append((code, body))
        asked = settings(iceberg=odd.address)
        assert any(why in each for each in bring_up_to_date(asked, lake, clock.now))


@contextmanager
def answering(parts: Iterable[bytes]) -> Iterator[str]:
    """Answer each request with some bytes, ten of the parts a second."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answers() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.recv(65_536)
                        for part in parts:
                            connection.sendall(part)
                            time.sleep(0.1)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(65_536):  # else what was not read resets it
                            pass

        Thread(target=answers, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"307 Elsewhere\r\nLocation: ELSEWHERE/token\r\n\r\n", "Exceeded 0 redirects"),
        (b'401 No\r\n\r\n{"error": "invalid_client"}', "refuses: invalid_client"),
        (b'200 OK\r\n\r\n{"access": "of-secret"}', "not understood: ValidationError"),
    ],
)
def test_a_secret_goes_to_the_address_alone_and_is_not_repeated(answer: bytes, why: str) -> None:
    with unity_server.running() as elsewhere:
        there = answer.replace(b"ELSEWHERE", elsewhere.address.encode())
        with answering([b"HTTP/1.0 " + there]) as address:
            options = {"credential": "me:secret", "oauth2-server-uri": f"{address}/token"}
            target = IcebergCatalog(address, options)
            with pytest.raises(LakeError, match=why) as found, module._explained(target.place):
                assert target._client.properties
        assert "secret" not in found.value.message
        assert elsewhere.asked == []


def test_an_answer_that_comes_byte_by_byte_ends(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITS", 1.0)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with answering([head, *[b" "] * 100]) as address:
        began = time.monotonic()
        with pytest.raises(TransientError, match="no whole answer in 1 s"):
            synced(IcebergCatalog(address, {}), lake)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden": 1}', '{"hidden": [], "later": 1}'])
def test_a_position_of_another_version_is_said(text: str) -> None:
    with pytest.raises(DefinitionError, match="is not understood"):
        Position.parsed(text)


def test_a_refusal_is_no_outage(catalog: IcebergCatalog) -> None:
    with (
        pytest.raises(DefinitionError, match="refuses"),
        module._explained(catalog.place),
    ):
        raise UnauthorizedError("no token")
