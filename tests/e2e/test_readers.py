"""Other engines read all tables of a lake as Strandline does, whatever happens to these: streams, maintenance, promotions, forgetting."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType, TimestampType
from strandline import catalog

from strandline.engine.lake.commit.create_table import create
from strandline.engine.lake.commit.delta_commit import Commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.publish.catalogs import books
from tests.cli.typed import Answer, start, strandline
from tests.support.by_hand import written_as
from tests.support.iceberg_server import IcebergServer, running
from tests.support.readers import (
    PlainSpark,
    Read,
    by_deltalake,
    by_duckdb,
    by_duckdb_in,
    by_pyiceberg,
    by_us,
    in_ducklake,
    rows_of,
    same,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole, pytest.mark.timeout(1500)]

EVENTS = 4_000
BUSY = 3
SILVER, GOLD = "silver.device_telemetry", "gold.device_signal_10m"
CATALOGS = ("iceberg", "ducklake")
SMALL: dict[str, Read] = {"deltalake": by_deltalake, "duckdb": by_duckdb}


@dataclass(frozen=True, slots=True)
class World:
    """A lake of the example, with all of its tables, and who reads it."""

    lake: Lake
    spark: PlainSpark
    log: Path
    iceberg: IcebergServer

    @property
    def env(self) -> dict[str, str]:
        """Return the catalogs as settings."""
        ducklake = f"{self.lake.root}.ducklake"
        return {"STRANDLINE_ICEBERG": self.iceberg.address, "STRANDLINE_DUCKLAKE": ducklake}

    @property
    def all(self) -> dict[str, Read]:
        """Return all readers."""
        return {**SMALL, "spark": self.spark}

    def tables(self, *names: str) -> list[Place]:
        """Return the folders of some tables, or of all, with their quarantines and decisions."""
        chosen = [each for each in catalog.tables() if not names or each.id in names]
        return [path for table in chosen for path in self.lake.books(table) if is_table(path)]

    def typed(self, *words: object) -> Answer:
        """Type a verb, and see that it succeeds."""
        return self.tried(*words).succeeded()

    def tried(self, *words: object) -> Answer:
        """Type a verb that may fail."""
        return strandline(*words, "--lake", self.lake.root, timeout=900, env=self.env)

    def shown(self, *names: str) -> int:
        """See that catalogs, once synced, show the rows of tables to three readers; return the number of rows."""
        self.typed("catalog", "sync", *names)
        number = 0
        for table in catalog.tables():
            if (names and table.id not in names) or not self.lake.exists(table):
                continue
            kept = {each: books(self.lake, each).tables[table.id] for each in CATALOGS}
            assert not any(each.why for each in kept.values()), kept
            readers = {
                "pyiceberg": ("iceberg", partial(by_pyiceberg, self.iceberg.address)),
                "duckdb's iceberg": ("iceberg", partial(by_duckdb_in, self.iceberg.address)),
                "ducklake": ("ducklake", partial(in_ducklake, self.env["STRANDLINE_DUCKLAKE"])),
            }
            for name, (where, read) in readers.items():
                entry = kept[where]
                is_py = name == "pyiceberg"
                found = rows_of(read(table.layer, table.name), by_pyiceberg=is_py)
                rows = by_us(self.lake.table(table), entry.version).drop_columns(entry.hidden)
                assert found == rows_of(rows, by_pyiceberg=is_py), f"{name} of {table.id}"
                number += sum(found.values())
        return number


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Fill all tables, and start the Spark that is not ours."""
    folder = tmp_path_factory.mktemp("readers")
    with running(tmp_path_factory.mktemp("iceberg")) as server:
        lake = Lake(Place.of(folder / "lake"))
        found = World(lake, PlainSpark(folder), folder / "stream.log", server)
        found.typed("up")
        try:
            found.typed("produce", "--events", EVENTS, "--seed", 7)
            while (
                answer := found.tried("run")
            ).code == BUSY:  # Spark's workers did not start in time
                continue
            answer.succeeded()
            yield found
        finally:
            found.typed("down")
            found.spark.close()


def test_all_tables_have_equal_rows(world: World) -> None:
    places = world.tables()
    assert len(places) > len(catalog.tables())
    rows = {place.below(world.lake.root): same(place, world.all) for place in places}
    assert sum(rows.values()) > EVENTS
    assert {kind for place in places for kind in written_as(place)} == {"INT64"}
    own = [world.lake.history, world.lake.closed_entries]
    assert all(same(place, world.all) for place in own if is_table(place))
    assert world.shown() > EVENTS


def test_rows_are_equal_while_a_stream_writes(world: World) -> None:
    places = world.tables(SILVER, GOLD, "bronze.device_telemetry")
    before = {place: latest_version(place) for place in places}
    stream = start("stream", "--every", "1s", "--lake", world.lake.root, log=world.log)
    try:
        deadline = time.monotonic() + 300
        seen: set[Place] = set()
        while len(seen) < len(places):
            assert stream.poll() is None, world.log.read_text()[-3000:]
            assert time.monotonic() < deadline, "no commit of the stream was seen"
            world.typed("produce", "--events", 300, "--seed", len(seen) + 8)
            for place in places:
                same(place, SMALL)
                if latest_version(place) > before[place]:
                    seen.add(place)
            assert world.shown(SILVER, GOLD, "bronze.device_telemetry")
        assert all(same(place, world.all) for place in places)
    finally:
        stream.terminate()
        stream.wait(120)


def test_rows_are_equal_after_what_is_done_to_them(world: World) -> None:
    places = world.tables(SILVER, GOLD)
    device = str(rows_one(world)["device_id"])
    steps: list[tuple[object, ...]] = [
        ("run",),
        ("maintain",),
        ("rebuild", SILVER),
        ("promote", SILVER),
        ("undo", SILVER),
        ("forget", "--where", f"device_id = '{device}'", "--now", "--go"),
        ("maintain", "--keep", "0s"),
    ]
    for words in steps:
        before = [latest_version(place) for place in places]
        world.typed(*words)
        assert all(same(place, SMALL) >= 0 for place in places), words
        assert world.shown(SILVER, GOLD), words
        if words[0] in {"promote", "undo", "forget"}:
            assert [latest_version(place) for place in places] != before, words
    left = [place for place in world.tables() if same(place, world.all) >= 0]
    assert len(left) == len(world.tables())
    assert world.shown()
    assert device not in str(rows_of(by_deltalake(places[0])))


def rows_one(world: World) -> dict[str, Any]:
    """Return one row of silver."""
    found: list[dict[str, Any]] = by_deltalake(world.tables(SILVER)[0]).slice(0, 1).to_pylist()
    return found[0]


def test_moments_of_any_year_are_read_by_all(spark: SparkSession, tmp_path: Path) -> None:
    """One of them made a table unreadable for pandas, when times were INT96."""
    path = Place.of(tmp_path / "far")
    create(spark, path, StructType().add("n", LongType()).add("at", TimestampType()))
    years = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    moments = F.when(
        F.col("id") == 0, F.timestamp_micros(F.lit(-62_135_596_800_000_000))
    ).otherwise(F.timestamp_micros(F.lit(253_402_300_799_999_999)))
    commit = Commit(spark, path)
    commit.write(spark.range(2).select(F.col("id").alias("n"), moments.alias("at")).coalesce(1))
    commit.commit("{}")

    reader = PlainSpark(tmp_path)
    try:
        assert same(path, {**SMALL, "spark": reader}) == 2
    finally:
        reader.close()
    assert written_as(path) == {"INT64": 1}
    assert [at.to_pydatetime() for at in in_pandas(path)] == years
    assert by_deltalake(path).sort_by("n")["at"].to_pylist() == years


def in_pandas(path: Place) -> list[Any]:
    """Return the moments as pandas has them."""
    from deltalake import DeltaTable  # noqa: PLC0415  # imports pandas

    frame = DeltaTable(str(path)).to_pandas().sort_values("n")
    return list(frame["at"])
