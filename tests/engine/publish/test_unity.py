"""A Unity Catalog shows tables where they are, by its published interface: a double of it, and readers that others made.

Its server cannot be had from a registry; tests/support/unity_server.py says to what the double holds.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import types as T  # the usual name

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import LiveFiles
from strandline.engine.lake.place import Place
from strandline.engine.publish import catalogs
from strandline.engine.publish import unity as module
from strandline.engine.publish.catalogs import (
    InCatalog,
    Position,
    Shown,
    books,
    dropped,
    lags,
    sync,
)
from strandline.engine.publish.unity import LAKE, SHOWN, UnityCatalog
from strandline.engine.runtime import clock
from tests.support import by_hand, lakes
from tests.support.events import TABLE, sent
from tests.support.readers import by_duckdb_in_unity, by_us, rows_of
from tests.support.unity_server import CATALOG, UnityServer, running

TOKEN = "of-a-publisher"  # noqa: S105  # the double's
FULL = f"{CATALOG}.{TABLE.id}"
NOW = clock.now
SOON = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(params=[True, False], ids=["changes in place", "has no update"])
def server(request: pytest.FixtureRequest) -> Iterator[UnityServer]:
    with running(token=TOKEN, has_updates=request.param) as found:
        yield found


@pytest.fixture
def one() -> Iterator[UnityServer]:
    with running(token=TOKEN) as found:
        yield found


def catalog(server: UnityServer, **options: str) -> UnityCatalog:
    return UnityCatalog(server.address, {"catalog": CATALOG, "token": TOKEN, **options})


def synced(
    target: UnityCatalog, lake: Lake, tables: Sequence[Table] = (TABLE,)
) -> tuple[InCatalog, bool]:
    ((_, entry, is_news),) = sync(target, tables, lake, NOW)
    return entry, is_news


def by_polars(server: UnityServer) -> pa.Table:
    """Read the table by Polars' client of the interface."""
    client = pl.Catalog(server.address, bearer_token=TOKEN, require_https=False)
    frame = client.scan_table(CATALOG, TABLE.layer, TABLE.name, credential_provider=None)
    return frame.collect().to_arrow()


def read(server: UnityServer) -> pa.Table:
    return by_duckdb_in_unity(server.address, TOKEN, CATALOG, TABLE.layer, TABLE.name)


def test_readers_find_the_rows_of_each_commit_without_a_sync(one: UnityServer, lake: Lake) -> None:
    assert synced(catalog(one), lake) == (books(lake, "unity").tables[TABLE.id], True)
    expected = rows_of(by_us(lake.table(TABLE)))
    assert sum(expected.values()) == 12
    assert rows_of(read(one)) == expected
    assert by_polars(one).num_rows == 12
    written = [*one.writes]
    assert len(written) == 2, "a schema and a table"

    for number in range(3, 9):
        sent(lake, number)
    assert [*merge_files(lake.table(TABLE), Choice(before_ms=2**62), SOON)]

    assert rows_of(read(one)) == rows_of(by_us(lake.table(TABLE)))
    assert [(e.versions > 0, e.seconds > 0) for e in lags(lake, NOW())] == [(True, True)]
    entry, is_news = synced(catalog(one), lake)
    assert not is_news, "its columns and what is said of it are as they were"
    assert entry.version == latest_version(lake.table(TABLE))
    assert [(each.versions, each.seconds) for each in lags(lake, NOW())] == [(0, 0.0)]
    assert one.writes == written


def test_what_is_said_of_a_table_is_there(one: UnityServer, lake: Lake) -> None:
    synced(catalog(one), lake, [replace(TABLE, owner="the fleet's people")])
    client = pl.Catalog(one.address, bearer_token=TOKEN, require_https=False)
    assert [each.name for each in client.list_namespaces(CATALOG)] == [TABLE.layer]
    assert [each.name for each in client.list_tables(CATALOG, TABLE.layer)] == [TABLE.name]
    found = client.get_table_info(CATALOG, TABLE.layer, TABLE.name)
    assert (found.table_type, found.data_source_format) == ("EXTERNAL", "DELTA")
    assert found.storage_location == Path(str(lake.table(TABLE))).as_uri()
    assert found.comment == TABLE.summary.partition("\n\n")[0]
    assert found.properties["strandline.owner"] == "the fleet's people"
    assert found.properties["strandline.layer"] == "bronze"
    assert found.properties[LAKE] == str(lake.root)
    columns = found.columns or []
    schema = DeltaTable(str(lake.table(TABLE))).schema()
    assert [each.name for each in columns] == [each.name for each in schema.fields]
    kinds = {each.name: (each.type_name, each.type_text) for each in columns}
    assert kinds["_offset"] == ("LONG", "bigint")
    assert kinds["_arrived_at"] == ("TIMESTAMP", "timestamp")
    assert kinds["_headers"][0] == "ARRAY"
    assert kinds["_headers"][1].startswith("array<struct<")


def test_a_new_column_is_registered_and_grants_stay_where_the_server_can(
    server: UnityServer, lake: Lake
) -> None:
    synced(catalog(server), lake)
    before = server.tables[FULL]["table_id"]
    table = DeltaTable(str(lake.table(TABLE)))
    table.alter.add_columns([Field("more", PrimitiveType("string"), metadata={"comment": "why"})])

    assert synced(catalog(server), lake)[1]

    found = server.tables[FULL]
    assert found["columns"][-1] | {"type_json": ""} == {
        "name": "more",
        "type_text": "string",
        "type_json": "",
        "type_name": "STRING",
        "type_precision": 0,
        "type_scale": 0,
        "nullable": True,
        "comment": "why",
        "position": len(found["columns"]) - 1,
    }
    assert (found["table_id"] == before) is server.has_updates, "what was granted is by this id"
    assert not synced(catalog(server), lake)[1]
    assert rows_of(read(server)) == rows_of(by_us(lake.table(TABLE)))


def test_words_that_went_are_taken_away(server: UnityServer, lake: Lake) -> None:
    synced(catalog(server), lake, [replace(TABLE, owner="one")])
    assert server.tables[FULL]["properties"]["strandline.owner"] == "one"
    server.tables[FULL]["properties"]["of others"] = "stays where it can"
    assert synced(catalog(server), lake)[1]
    has = server.tables[FULL]["properties"]
    assert "strandline.owner" not in has
    assert ("of others" in has) is server.has_updates


def test_texts_of_any_length_are_taken(server: UnityServer, lake: Lake) -> None:
    """A property has 255 characters in the server's database; a comment has more, and no megabyte."""
    long = "ü" * 1_000_000
    talks = replace(TABLE, owner=long)
    synced(catalog(server), lake)
    assert synced(catalog(server), lake, [talks])[1]
    has = server.tables[FULL]["properties"]
    assert len(has["strandline.owner"]) == 255
    assert not synced(catalog(server), lake, [talks])[1]


def test_a_table_with_masked_columns_is_kept_back_and_taken_out(
    one: UnityServer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(catalog(one), lake)
    assert FULL in one.tables
    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "hidden", lambda *_: frozenset({"_payload"}))
        entry, is_news = synced(catalog(one), lake)
        assert (entry.version, is_news, entry.is_kept_back) == (-1, False, True)
        assert "masked columns (_payload)" in entry.why
        assert one.tables == {}
        (lag,) = lags(lake, NOW())
        assert (lag.shown, lag.versions, lag.seconds) == (None, 0, 0.0), "nothing is late"
        writes = [*one.writes]
        synced(catalog(one), lake)
        assert one.writes == writes, "nothing is changed again"
    assert synced(catalog(one), lake)[1]
    assert FULL in one.tables


def test_one_that_was_shown_unknown_to_the_books_is_taken_out(
    one: UnityServer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the request that showed it was lost, or the lake was restored since."""
    with monkeypatch.context() as patch:

        def lost(*_: object) -> None:
            raise TransientError("lost", hint="")

        patch.setattr(UnityCatalog, "_taken", lost)
        with pytest.raises(TransientError, match="lost"):
            synced(catalog(one), lake)
    synced(catalog(one), lake)
    (lake.catalogs / "unity.json").remove()
    monkeypatch.setattr(catalogs, "hidden", lambda *_: frozenset({"_payload"}))
    assert synced(catalog(one), lake)[0].is_kept_back
    assert one.tables == {}


def test_books_of_another_address_are_not_believed(one: UnityServer, lake: Lake) -> None:
    synced(catalog(one), lake)
    away = UnityCatalog("http://127.0.0.1:9", {"catalog": CATALOG})
    with pytest.raises(TransientError):
        synced(away, lake)
    assert [each.shown for each in lags(lake, NOW())] == [None]


def test_files_that_others_cannot_list_are_nothing_to_a_reader_of_the_log(
    one: UnityServer, lake: Lake
) -> None:
    """Files of before, with INT96; an Iceberg catalog refuses them."""
    by_hand.as_before(lake.table(TABLE))
    assert synced(catalog(one), lake)[0].why == ""
    assert rows_of(read(one)) == rows_of(by_us(lake.table(TABLE)))


def test_a_table_of_another_is_left_alone(one: UnityServer, lake: Lake, tmp_path: Path) -> None:
    synced(catalog(one), lake)
    lakes.copy(lake.root, Place.of(tmp_path / "other"))
    other = Lake(Place.of(tmp_path / "other"))
    (other.catalogs / "unity.json").remove()
    assert f"of the lake {lake.root}" in synced(catalog(one), other)[0].why
    assert [*dropped(catalog(one), [TABLE.id], other)] == []

    one.tables[FULL]["table_type"] = "MANAGED"
    assert [*dropped(catalog(one), [TABLE.id], lake)] == [], "its files would go with it"
    assert "of the lake" in synced(catalog(one), lake)[0].why

    del one.tables[FULL]["properties"]
    assert "of another origin" in synced(catalog(one), lake)[0].why
    assert [*dropped(catalog(one), [TABLE.id], lake)] == []
    assert FULL in one.tables


def test_a_table_that_was_made_anew_and_one_that_was_dropped(
    server: UnityServer, lake: Lake
) -> None:
    synced(catalog(server), lake)
    first = server.tables[FULL]["properties"][SHOWN]
    files = sorted(lake.table(TABLE).local.glob("*.parquet"))
    assert [*dropped(catalog(server), [TABLE.id], lake)] == [TABLE.id]
    assert [*dropped(catalog(server), [TABLE.id], lake)] == []
    assert sorted(lake.table(TABLE).local.glob("*.parquet")) == files
    assert server.tables == {}
    synced(catalog(server), lake)

    lake.table(TABLE).remove()
    sent(lake, 0, count=2)
    assert synced(catalog(server), lake)[1]
    assert server.tables[FULL]["properties"][SHOWN] != first
    assert read(server).num_rows == 2


def test_a_sync_that_was_killed_between_its_two_requests_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(token=TOKEN, has_updates=False) as server:
        synced(catalog(server), lake)
        with monkeypatch.context() as patch:

            def dies(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(UnityCatalog, "_created", dies)
            with pytest.raises(KeyboardInterrupt):
                synced(catalog(server), lake, [replace(TABLE, owner="new")])
        assert server.tables == {}
        assert synced(catalog(server), lake, [replace(TABLE, owner="new")])[1]
        assert server.tables[FULL]["properties"]["strandline.owner"] == "new"


ERROR = {"error_code": "PERMISSION_DENIED", "message": "Input path overlaps with other entities."}


@pytest.mark.parametrize(
    ("code", "body", "why"),
    [
        (403, json.dumps(ERROR).encode(), "refuses: PERMISSION_DENIED: Input path overlaps"),
        (401, b"", "refuses: HTTP 401"),
        (404, b"<html>not here</html>", "is no Unity Catalog"),
        (200, b"<html>welcome</html>", "is no Unity Catalog"),
        (302, b"", "is no Unity Catalog"),
        (400, b'{"error_code": "INVALID_ARGUMENT", "message": "no"}', "INVALID_ARGUMENT: no"),
    ],
)
def test_an_error_is_said_of_the_table(
    one: UnityServer, lake: Lake, code: int, body: bytes, why: str
) -> None:
    one.answers.append((code, body))
    entry, is_news = synced(catalog(one), lake)
    assert not is_news
    assert why in entry.why
    assert synced(catalog(one), lake)[1], "the next sync goes on"


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_at_fault_is_only_behind(one: UnityServer, lake: Lake, code: int) -> None:
    one.answers.append((code, b'{"error_code": "INTERNAL", "message": "disk full"}'))
    with pytest.raises(TransientError, match="INTERNAL: disk full"):
        synced(catalog(one), lake)
    assert "disk full" in books(lake, "unity").away
    assert synced(catalog(one), lake)[1]
    assert books(lake, "unity").away == ""


def test_one_that_is_away_slow_or_endless_is_only_behind(
    one: UnityServer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"catalog": CATALOG, "token": TOKEN}
    with pytest.raises(TransientError, match="does not answer"):
        synced(UnityCatalog("http://127.0.0.1:9", options), lake)
    assert all("does not answer" in each.why for each in lags(lake, NOW()))

    monkeypatch.setattr(module, "MOST", 1_000)
    one.answers.append((200, b"{" + b" " * 1_000_000))
    with pytest.raises(TransientError, match="no whole answer of up to 1,000 bytes"):
        synced(catalog(one), lake)

    monkeypatch.setattr(module, "WAITS", 0.3)
    one.silence = 2.0
    began = time.monotonic()
    with pytest.raises(TransientError, match="does not answer"):
        synced(catalog(one), lake)
    assert time.monotonic() - began < 2
    one.silence = 0.0


def test_a_wrong_token_a_missing_catalog_and_wrong_options(one: UnityServer, lake: Lake) -> None:
    assert "UNAUTHENTICATED" in synced(catalog(one, token="another"), lake)[0].why  # noqa: S106
    assert "has no catalog others" in synced(catalog(one, catalog="others"), lake)[0].why
    for wrong in ({}, {"catalog": "lake", "warehouse": "x"}, {"token": "t"}):
        with pytest.raises(DefinitionError, match="STRANDLINE_UNITY_OPTIONS"):
            UnityCatalog(one.address, wrong)
    assert TOKEN not in str(books(lake, "unity"))


def test_a_token_follows_no_redirect(one: UnityServer, lake: Lake) -> None:
    with running() as elsewhere:
        one.answers.append((307, b""))
        one.headers = {"Location": elsewhere.address}
        synced(catalog(one), lake)
        assert elsewhere.asked == []


def test_each_type_is_in_the_words_of_the_interface(one: UnityServer) -> None:
    """Created, and then changed in place: both parts of the interface take each type, and keep the same of it."""
    deep = T.ArrayType(T.StructType([T.StructField("a", T.MapType(T.StringType(), T.ByteType()))]))
    kinds: Mapping[str, T.DataType] = {
        "bool": T.BooleanType(),
        "byte": T.ByteType(),
        "short": T.ShortType(),
        "int": T.IntegerType(),
        "long": T.LongType(),
        "float": T.FloatType(),
        "double": T.DoubleType(),
        "decimal": T.DecimalType(12, 3),
        "text": T.StringType(),
        "bytes": T.BinaryType(),
        "day": T.DateType(),
        "at": T.TimestampType(),
        "local": T.TimestampNTZType(),
        "deep": deep,
        "any": T.VariantType(),
    }
    schema = T.StructType([T.StructField(n, k, n != "long") for n, k in kinds.items()])
    shown = _shown_as(schema, "x")
    assert catalog(one).show(shown)
    created = one.tables[f"{CATALOG}.silver.wide"]
    columns = {each["name"]: each for each in created["columns"]}
    assert columns["decimal"]["type_precision"] == 12
    assert columns["decimal"]["type_scale"] == 3
    assert columns["day"]["partition_index"] == 0
    assert columns["long"]["nullable"] is False
    names = [each["type_name"] for each in created["columns"]]

    assert catalog(one).show(_shown_as(schema, "y"))

    changed = one.tables[f"{CATALOG}.silver.wide"]
    assert changed["table_id"] == created["table_id"]
    assert [each["type_name"] for each in changed["columns"]] == names
    for before, after in zip(created["columns"], changed["columns"], strict=True):
        assert json.loads(before["type_json"]) == json.loads(after["type_json"])
    assert changed["properties"]["strandline.note"] == "y"


def _shown_as(schema: T.StructType, note: str) -> Shown:
    metadata = {"schemaString": schema.json(), "partitionColumns": ["day"]}
    return Shown(
        layer="silver",
        name="wide",
        path=Place.of("s3a://bucket/lake/silver/wide"),
        live=LiveFiles(version=3, files={}, metadata=metadata, reader=1),
        position=Position(
            lake="s3a://bucket/lake",
            table="t",
            version=3,
            mark="",
            words={"strandline.note": note, "comment": "wide"},
        ),
    )


def test_a_lake_on_a_store_is_named_as_its_readers_name_it(one: UnityServer) -> None:
    schema = T.StructType([T.StructField("day", T.DateType())])
    catalog(one).show(_shown_as(schema, "x"))
    assert one.tables[f"{CATALOG}.silver.wide"]["storage_location"] == (
        "s3://bucket/lake/silver/wide"
    )
    on_azure = Place.of("abfss://container@account.dfs.core.windows.net/lake/silver/wide")
    catalog(one).show(replace(_shown_as(schema, "x"), path=on_azure))
    assert one.tables[f"{CATALOG}.silver.wide"]["storage_location"] == str(on_azure)
