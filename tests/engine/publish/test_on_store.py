"""Catalogs of a lake on an object store: Iceberg's and Unity's show it, a DuckLake cannot and says so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.publish import catalogs
from strandline.engine.publish.catalogs import Catalog, InCatalog, books, dropped, sync
from strandline.engine.publish.ducklake import DuckLakeCatalog
from strandline.engine.publish.iceberg import IcebergCatalog
from strandline.engine.publish.unity import UnityCatalog
from strandline.engine.runtime import clock
from tests.engine import written
from tests.support import iceberg_server, unity_server
from tests.support.events import TABLE, sent
from tests.support.readers import by_duckdb_in, by_pyiceberg, by_us, iceberg_options, rows_of
from tests.support.s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TABLES: Sequence[Table] = (TABLE, written.SILVER)


@pytest.fixture
def on_store(bucket: Place) -> Lake:
    """Return a lake in the bucket: one table of three commits, and one of one."""
    made = Lake(bucket / "lake")
    for number in range(3):
        sent(made, number)
    written.written(made.table(written.SILVER), written.numbers(5))
    return made


@pytest.fixture(scope="module", params=["on a disk", "on the store"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, s3: S3Server
) -> Iterator[iceberg_server.IcebergServer]:
    """Start Iceberg's server, with its own metadata there."""
    folder = tmp_path_factory.mktemp("iceberg")
    with iceberg_server.running(folder, s3 if request.param == "on the store" else None) as found:
        yield found


def synced(target: Catalog, lake: Lake) -> dict[str, tuple[InCatalog, bool]]:
    found = sync(target, TABLES, lake, clock.now)
    return {name: (entry, is_news) for name, entry, is_news in found}


@dataclass(frozen=True, slots=True)
class Read:
    """Both readers of the catalog."""

    address: str
    s3: S3Server

    def equal(self, lake: Lake, without: Sequence[str] = ()) -> int:
        """See that they find the rows that the lake has; return their number."""
        number = 0
        for table in TABLES:
            rows = by_us(lake.table(table))
            rows = rows.drop_columns([each for each in without if each in rows.column_names])
            for is_py, read in ((True, by_pyiceberg), (False, by_duckdb_in)):
                found = rows_of(
                    read(self.address, table.layer, table.name, self.s3), by_pyiceberg=is_py
                )
                assert found == rows_of(rows, by_pyiceberg=is_py), f"{read.__name__} of {table.id}"
                number += sum(found.values())
        return number


@pytest.mark.whole("on a disk")
def test_an_iceberg_catalog_follows_a_lake_on_a_store(
    server: iceberg_server.IcebergServer,
    s3: S3Server,
    on_store: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = IcebergCatalog(server.address, iceberg_options(s3))
    read = Read(server.address, s3)
    assert all(is_news and not entry.why for entry, is_news in synced(catalog, on_store).values())
    assert read.equal(on_store) == 2 * (12 + 5)
    assert not any(is_news for _, is_news in synced(catalog, on_store).values())

    for number in range(3, 9):
        sent(on_store, number)
    assert [
        *merge_files(
            on_store.table(TABLE), Choice(before_ms=2**62), datetime(2030, 1, 1, tzinfo=UTC)
        )
    ]
    written.written(on_store.table(written.SILVER), written.numbers(2), mode="overwrite")
    synced(catalog, on_store)
    assert read.equal(on_store) == 2 * (36 + 2)

    secret = ["_headers", "_payload"]
    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "hidden", lambda *_: frozenset(secret))
        assert synced(catalog, on_store)[TABLE.id][0].hidden == secret
        assert read.equal(on_store, secret) == 2 * (36 + 2)

    files = {str(each) for each in on_store.table(TABLE).files()}
    assert [*dropped(catalog, [each.id for each in TABLES], on_store)] == [e.id for e in TABLES]
    assert {str(each) for each in on_store.table(TABLE).files()} == files
    assert books(on_store, "iceberg").tables == {}


def test_readers_of_a_unity_catalog_find_a_lake_on_a_store(s3: S3Server, on_store: Lake) -> None:
    """By the folder's address; DuckDB's extension knows no other store than AWS's own, so Polars reads alone."""
    with unity_server.running() as unity:
        synced(UnityCatalog(unity.address, {"catalog": unity_server.CATALOG}), on_store)
        client = pl.Catalog(unity.address, bearer_token="none", require_https=False)  # noqa: S106  # the double takes any
        for number, table in ((12, TABLE), (5, written.SILVER)):
            found = client.get_table_info(unity_server.CATALOG, table.layer, table.name)
            place = on_store.table(table)
            assert found.storage_location == f"s3://{place.path}"
            frame = client.scan_table(
                unity_server.CATALOG,
                table.layer,
                table.name,
                credential_provider=None,
                storage_options={
                    "aws_endpoint_url": s3.address,
                    "aws_access_key_id": s3.key,
                    "aws_secret_access_key": s3.secret,
                    "aws_region": "us-east-1",
                    "aws_allow_http": "true",
                },
            )
            rows = frame.collect().to_arrow()
            assert rows.num_rows == number
            assert rows_of(rows) == rows_of(by_us(place))


def test_a_ducklake_says_that_it_cannot(on_store: Lake, tmp_path: Path) -> None:
    file = tmp_path / "shown.ducklake"
    found = synced(DuckLakeCatalog(str(file)), on_store)
    assert {name: is_news for name, (_, is_news) in found.items()} == {e.id: False for e in TABLES}
    assert all("no second names of files" in entry.why for entry, _ in found.values())
    assert not file.exists(), "it is not even made"


def test_delta_rs_and_we_mean_the_same_keys_by_all_letters_that_a_lake_may_have(
    bucket: Place,
) -> None:
    odd = Lake(bucket / "A'b+c!$&(),;:@=_.-")
    written.written(odd.table(written.SILVER), written.numbers(5))
    assert odd.table(written.SILVER).exists()
    assert by_us(odd.table(written.SILVER)).num_rows == 5
