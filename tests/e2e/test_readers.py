"""Other engines read all tables of a lake as Strandline does, whatever happens to these: streams, maintenance, promotions, forgetting.

The suite takes three tables that are written without Spark; ``make prove`` all of the example, with the programs that change them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType, TimestampType
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.commit.create_table import create
from strandline.engine.lake.commit.delta_commit import Commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.publish.catalogs import books, sync
from strandline.engine.publish.ducklake import DuckLakeCatalog
from strandline.engine.publish.iceberg import IcebergCatalog
from strandline.engine.publish.unity import UnityCatalog
from strandline.engine.runtime import clock
from tests.cli.typed import Answer, start, strandline
from tests.engine import written
from tests.support import events, unity_server
from tests.support.by_hand import written_as
from tests.support.iceberg_server import running
from tests.support.readers import (
    PlainSpark,
    Read,
    by_deltalake,
    by_duckdb,
    by_duckdb_in,
    by_duckdb_in_unity,
    by_pyiceberg,
    by_us,
    in_ducklake,
    rows_of,
    same,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVENTS = 4_000
BUSY = 3
TRIES = 3
PATIENCE = 600
ROUNDS = 3
"""Times that all readers read while a stream writes."""

BRONZE, SILVER = "bronze.device_telemetry", "silver.device_telemetry"
GOLD = "gold.device_signal_10m"
TOKEN = "of-the-readers"  # noqa: S105  # the double's
SMALL: Mapping[str, Read] = {"deltalake": by_deltalake, "duckdb": by_duckdb}
LONG = pytest.mark.prove(alone="a quarter of an hour")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    """Start the Spark that is not ours."""
    found = PlainSpark(tmp_path_factory.mktemp("plain"))
    yield found
    found.close()


@dataclass(frozen=True, slots=True)
class Shown:
    """The catalogs in which readers find the tables, one of them a double."""

    iceberg: str
    ducklake: str
    unity: str

    @property
    def env(self) -> dict[str, str]:
        """Return them as settings."""
        return {
            "STRANDLINE_ICEBERG": self.iceberg,
            "STRANDLINE_DUCKLAKE": self.ducklake,
            "STRANDLINE_UNITY": self.unity,
            "STRANDLINE_UNITY_OPTIONS": f'{{"catalog": "{unity_server.CATALOG}", "token": "{TOKEN}"}}',
        }

    def synced(self, lake: Lake, tables: Sequence[Table]) -> None:
        """Bring all of them up to date, within this process."""
        options = {"catalog": unity_server.CATALOG, "token": TOKEN}
        for each in (
            IcebergCatalog(self.iceberg, {}),
            DuckLakeCatalog(self.ducklake),
            UnityCatalog(self.unity, options),
        ):
            assert [*sync(each, tables, lake, clock.now)]

    def equal(self, lake: Lake, tables: Sequence[Table]) -> int:
        """See that readers find in each catalog the rows of the version that it shows; return the number of rows."""
        readers = {
            "pyiceberg": ("iceberg", partial(by_pyiceberg, self.iceberg)),
            "duckdb's iceberg": ("iceberg", partial(by_duckdb_in, self.iceberg)),
            "ducklake": ("ducklake", partial(in_ducklake, self.ducklake)),
        }
        kept = {each: books(lake, each).tables for each in ("iceberg", "ducklake", "unity")}
        number = 0
        for table in tables:
            for name, (where, read) in readers.items():
                entry = kept[where][table.id]
                assert not entry.why, f"{where} of {table.id}: {entry.why}"
                is_py = name == "pyiceberg"
                found = rows_of(read(table.layer, table.name), by_pyiceberg=is_py)
                rows = by_us(lake.table(table), entry.version).drop_columns(entry.hidden)
                assert found == rows_of(rows, by_pyiceberg=is_py), f"{name} of {table.id}"
                number += sum(found.values())
            in_unity = kept["unity"][table.id]
            has_secrets = bool(kept["iceberg"][table.id].hidden)
            assert in_unity.is_kept_back is has_secrets, (table.id, in_unity)
            if not has_secrets:
                assert not in_unity.why, f"unity of {table.id}: {in_unity.why}"
                number += same(lake.table(table), {"unity": self._in_unity})
        return number

    def _in_unity(self, place: Place) -> pa.Table:
        """Read the table of a folder as Unity Catalog's readers find it."""
        return by_duckdb_in_unity(
            self.unity, TOKEN, unity_server.CATALOG, place.parent.name, place.name
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Start the servers of catalogs."""
    folder = tmp_path_factory.mktemp("shown")
    with running(folder) as server, unity_server.running(token=TOKEN) as unity:
        yield Shown(server.address, str(folder / "shown.ducklake"), unity.address)


# ---- three tables, written without Spark -------------------------------------------------------------------


ROWS: list[dict[str, object]] = [
    {
        "number": number,
        "price": Decimal(number) / 100 if number % 3 else None,
        "day": date(2026, 11, 1 + number % 3),
        "at": datetime(2026, 11, 2, 12, number, 0, 123_457, tzinfo=UTC),
        "words": ["a", "ü" * number] if number % 2 else [],
        "is_odd": bool(number % 2),
        "inner": {"x": float(number), "y": None if number % 2 else "y"},
    }
    for number in range(20)
]


def test_five_readers_agree_beside_commits_and_after_repairs(
    shown: Shown, plain: PlainSpark, tmp_path: Path
) -> None:
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    tables = [events.TABLE, written.SILVER]
    for number in range(3):
        events.sent(lake, number)
    written.written(lake.table(written.SILVER), ROWS)
    places = [lake.table(each) for each in tables]
    readers: dict[str, Read] = {**SMALL, "spark": plain}

    def see(*sizes: int) -> None:
        shown.synced(lake, tables)
        assert tuple(same(place, readers) for place in places) == sizes
        # Nothing is masked here, so three catalogs have four readers.
        assert shown.equal(lake, tables) == 4 * sum(sizes)

    see(12, 20)

    commits = count(3)
    beside = {
        name: reading_beside(read, lambda: events.sent(lake, next(commits)))
        for name, read in readers.items()
    }
    assert same(places[0], beside) > 12
    number = latest_version(places[0])
    assert number == 3 + 2 * len(readers)

    assert [*merge_files(places[0], Choice(before_ms=2**62), datetime(2030, 1, 1, tzinfo=UTC))]
    written.written(places[1], ROWS[:7], mode="overwrite")
    see(4 * number, 7)


def reading_beside(read: Read, commit: Callable[[], object]) -> Read:
    """Return a reader beside which two commits are made, whenever each of them falls into its reading."""

    def reads(place: Place) -> pa.Table:
        with ThreadPoolExecutor(1) as pool:
            beside = [pool.submit(commit) for _ in range(2)]
            found = read(place)
            for each in beside:
                each.result()
        return found

    return reads


@pytest.mark.whole
def test_moments_of_any_year_are_read_by_all(
    spark: SparkSession, plain: PlainSpark, tmp_path: Path
) -> None:
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

    assert same(path, {**SMALL, "spark": plain}) == 2
    assert written_as(path) == {"INT64": 1}
    assert [at.to_pydatetime() for at in in_pandas(path)] == years
    assert by_deltalake(path).sort_by("n")["at"].to_pylist() == years


def in_pandas(path: Place) -> list[Any]:
    """Return the moments as pandas has them."""
    from deltalake import DeltaTable  # noqa: PLC0415  # imports pandas

    frame = DeltaTable(str(path)).to_pandas().sort_values("n")
    return list(frame["at"])


# ---- all tables of the example -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """A lake of the example, with all of its tables, and who reads it."""

    lake: Lake
    spark: PlainSpark
    log: Path
    catalogs: Shown

    @property
    def all(self) -> dict[str, Read]:
        """Return all readers."""
        return {**SMALL, "spark": self.spark}

    def of(self, *names: str) -> list[Table]:
        """Return some tables, or all, that are there."""
        chosen = [each for each in catalog.tables() if not names or each.id in names]
        return [each for each in chosen if is_table(self.lake.table(each))]

    def places(self, *names: str) -> list[Place]:
        """Return the folders of some tables, or of all, with their quarantines and decisions."""
        return [
            path for table in self.of(*names) for path in self.lake.books(table) if is_table(path)
        ]

    def typed(self, *words: object) -> Answer:
        """Type a verb, and see that it succeeds; Spark's workers may not start in time on a machine that is busy."""
        for _ in range(TRIES):
            answer = strandline(
                *words, "--lake", self.lake.root, timeout=900, env=self.catalogs.env
            )
            if answer.code != BUSY:
                break
        return answer.succeeded()

    def shown(self, *names: str) -> int:
        """See that catalogs, once synced, show the rows of tables to their readers; return the number of rows."""
        self.typed("catalog", "sync", *names)
        return self.catalogs.equal(self.lake, self.of(*names))


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, shown: Shown, plain: PlainSpark
) -> Iterator[World]:
    """Fill all tables."""
    folder = tmp_path_factory.mktemp("readers")
    found = World(Lake(Place.of(folder / "lake")), plain, folder / "stream.log", shown)
    found.typed("up")
    try:
        found.typed("produce", "--events", EVENTS, "--seed", 7)
        found.typed("run")
        yield found
    finally:
        found.typed("down")


@LONG
@pytest.mark.kafka
def test_all_tables_have_equal_rows(world: World) -> None:
    places = world.places()
    assert len(world.of()) == len(catalog.tables())
    assert len(places) > len(catalog.tables())
    rows = {place.below(world.lake.root): same(place, world.all) for place in places}
    assert sum(rows.values()) > EVENTS
    assert {kind for place in places for kind in written_as(place)} == {"INT64"}
    own = [each for each in (world.lake.history, world.lake.closed_entries) if is_table(each)]
    assert all(same(place, world.all) for place in own)
    assert world.shown() > EVENTS


@LONG
@pytest.mark.kafka
def test_rows_are_equal_while_a_stream_writes(world: World) -> None:
    names = (BRONZE, SILVER, GOLD)
    places = [world.lake.table(each) for each in world.of(*names)]
    before = {place: latest_version(place) for place in places}
    stream = start("stream", *names, "--every", "1s", "--lake", world.lake.root, log=world.log)
    try:
        deadline = time.monotonic() + PATIENCE
        seen: set[Place] = set()
        rounds = 0
        while rounds < ROUNDS or len(seen) < len(places):
            rounds += 1
            assert stream.poll() is None, world.log.read_text()[-3000:]
            assert time.monotonic() < deadline, "no commit of the stream was seen"
            world.typed("produce", "--events", 300, "--seed", rounds + 7)
            assert all(same(place, world.all) for place in places)
            assert world.shown(*names)
            seen.update(place for place in places if latest_version(place) > before[place])
    finally:
        stream.terminate()
        stream.wait(120)


@LONG
@pytest.mark.kafka
def test_rows_are_equal_after_what_is_done_to_them(world: World) -> None:
    chosen = [world.lake.table(each) for each in world.of(SILVER, GOLD)]
    device = by_deltalake(world.lake.table(world.of(SILVER)[0]))["device_id"][0].as_py()
    steps: list[tuple[object, ...]] = [
        ("run",),
        ("maintain",),
        ("rebuild", SILVER),
        ("promote", SILVER),
        ("undo", SILVER),
        ("forget", "--where", f"device_id = '{device}'", "--now", "--go"),
        ("maintain", "--keep", "500ms"),
    ]
    for words in steps:
        before = [latest_version(place) for place in chosen]
        world.typed(*words)
        assert all(same(place, world.all) for place in chosen), words
        assert world.shown(SILVER, GOLD), words
        if words[0] in {"promote", "undo", "forget"}:
            assert [latest_version(place) for place in chosen] != before, words
    for place in world.places():
        same(place, world.all)
        columns = by_deltalake(place)
        if "device_id" in columns.column_names:
            assert not pc.sum(pc.equal(columns["device_id"], device)).as_py(), place
    assert world.shown()
