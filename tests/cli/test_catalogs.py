"""``catalog``: tables are shown where other engines look, ``status`` says how far, and nothing of the lake waits for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.publish.catalogs import sync
from strandline.engine.publish.ducklake import DuckLakeCatalog
from strandline.engine.runtime import clock
from tests.cli.inside import strandline, succeeded
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support import unity_server
from tests.support.readers import by_duckdb_in_unity, in_ducklake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return small_lake(Place.of(tmp_path / "lake"))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"STRANDLINE_DUCKLAKE": str(tmp_path / "shown.ducklake")}


def test_tables_are_shown_followed_and_taken_out(lake: Lake, env: dict[str, str]) -> None:
    found = succeeded("catalog", "sync", "--lake", lake.root, "--json", env=env)
    shown = {each["table"]: each for each in found.json}  # type: ignore[attr-defined]  # JSON
    assert {*shown} == {BRONZE.id, SILVER.id, GOLD.id}
    assert {each["versions"] for each in shown.values()} == {0}
    assert f"ducklake shows {SILVER.id} at version 0" in found.err
    rows = in_ducklake(env["STRANDLINE_DUCKLAKE"], SILVER.layer, SILVER.name)
    assert rows.num_rows == 3

    written(lake.table(BRONZE), numbers(4), entry(BRONZE, batch=2).encoded())
    answer = succeeded("catalog", "status", "--lake", lake.root, env=env).out
    assert BRONZE.id in answer
    behind = succeeded("catalog", "status", "--lake", lake.root, "--json", env=env).json
    assert {e["table"]: e["versions"] for e in behind} == {  # type: ignore[attr-defined]  # JSON
        BRONZE.id: 1,
        SILVER.id: 0,
        GOLD.id: 0,
    }

    maintained = succeeded("maintain", "--lake", lake.root, env=env)
    assert f"ducklake shows {BRONZE.id} at version 2" in maintained.err

    gone = succeeded("catalog", "drop", SILVER.id, "--lake", lake.root, env=env)
    assert f"ducklake shows {SILVER.id} no more" in gone.out
    assert "nothing" in succeeded("catalog", "drop", SILVER.id, "--lake", lake.root, env=env).out


def test_a_table_whose_module_is_gone_is_taken_out_by_its_name(
    lake: Lake, env: dict[str, str]
) -> None:
    before = replace(SILVER, name="of_before")
    written(lake.table(before), numbers(2))
    target = DuckLakeCatalog(env["STRANDLINE_DUCKLAKE"])
    assert [name for name, *_ in sync(target, [before], lake, clock.now)] == [before.id]
    assert before.id in succeeded("catalog", "status", "--lake", lake.root, env=env).out

    gone = succeeded("catalog", "drop", before.id, "--lake", lake.root, env=env)

    assert f"ducklake shows {before.id} no more" in gone.out
    assert strandline("catalog", "drop", before.id, "--lake", lake.root, env=env).code == 2


def test_a_catalog_that_is_away_ends_a_sync_and_no_maintenance(lake: Lake) -> None:
    env = {"STRANDLINE_ICEBERG": "http://127.0.0.1:9"}
    answer = strandline("catalog", "sync", "--lake", lake.root, env=env)
    assert answer.code == 3
    assert "does not answer" in answer.err
    assert "does not answer" in succeeded("maintain", "--lake", lake.root, env=env).err
    status = succeeded("catalog", "status", "--lake", lake.root, env=env).out
    assert "does not answer" in status


def test_a_unity_catalog_shows_tables_by_their_folders(lake: Lake) -> None:
    """A double of its interface: tests/support/unity_server.py."""
    with unity_server.running(token="t") as server:  # noqa: S106  # the double's
        env = {
            "STRANDLINE_UNITY": server.address,
            "STRANDLINE_UNITY_OPTIONS": '{"catalog": "lake", "token": "t"}',
        }
        found = succeeded("catalog", "sync", "--lake", lake.root, "--json", env=env)
        assert f"unity shows {SILVER.id} at version 0" in found.err
        assert {e["table"]: e["versions"] for e in found.json} == dict.fromkeys(  # type: ignore[attr-defined]  # JSON
            (BRONZE.id, SILVER.id, GOLD.id), 0
        )
        rows = by_duckdb_in_unity(server.address, "t", "lake", SILVER.layer, SILVER.name)
        assert rows.num_rows == 3

        written(lake.table(SILVER), numbers(4), entry(SILVER, batch=2).encoded())
        rows = by_duckdb_in_unity(server.address, "t", "lake", SILVER.layer, SILVER.name)
        assert rows.num_rows == 7, "its readers follow the log"
        writes = [*server.writes]
        assert "unity shows" not in succeeded("maintain", "--lake", lake.root, env=env).err
        assert server.writes == writes

        gone = succeeded("catalog", "drop", SILVER.id, "--lake", lake.root, env=env)
        assert f"unity shows {SILVER.id} no more" in gone.out

        wrong = {**env, "STRANDLINE_UNITY_OPTIONS": '{"token": "t"}'}
        answer = strandline("catalog", "sync", "--lake", lake.root, env=wrong)
        assert answer.code == 2
        assert "STRANDLINE_UNITY_OPTIONS name no catalog" in answer.err
        assert "name no catalog" in succeeded("maintain", "--lake", lake.root, env=wrong).err


def test_without_a_catalog_it_says_how_one_is_named(lake: Lake) -> None:
    answer = strandline("catalog", "sync", "--lake", lake.root)
    assert answer.code == 2
    assert "STRANDLINE_ICEBERG" in answer.err
    assert "STRANDLINE_UNITY" in answer.err
    assert "no catalog was synced" in succeeded("catalog", "status", "--lake", lake.root).out
