"""A contestant whose rows are wrong has no figure: each kind of wrong row is planted once, and refused."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from fleet.play.devices import Fleet
from fleet.play.plan import Plan
from tests.benchmarks import ad_views, oracle
from tests.benchmarks.contestants.contestant import ADS, BRONZE, GOLD, SILVER, Place, files
from tests.benchmarks.contestants.duckdb_batch import DuckDb
from tests.benchmarks.ground import Ground, Row
from tests.benchmarks.oracle import WrongRowsError
from tests.benchmarks.samples import Samples
from tests.benchmarks.workers import Cost, Worker, workers
from tests.benchmarks.yahoo import ads

DAY = datetime(2026, 10, 1, tzinfo=UTC)
PLAN = Plan(since=DAY, until=DAY.replace(day=2), events=6_000, seed=7)
FEW_ADS = 60_000
"""A minute: six windows of each campaign."""


def bronze(place: Place) -> None:
    """Write a plan's records as a table that contestants read."""
    for number, chunk in enumerate(Fleet(PLAN).chunks(65_536)):
        rows = oracle.sent(chunk, number)
        batch = rows.append_column("_batch", rows["_offset"])
        write_deltalake(place.table(BRONZE), batch, mode="append")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a place with the tables that DuckDB has made of a plan."""
    found = Place(root=tmp_path / "run", address="", topic="")
    bronze(found)
    made = DuckDb()
    made.begin(tmp_path / "log")
    made.catch_up((SILVER, GOLD), found)
    return found


def check(place: Place, folder: Path) -> None:
    """Compare all tables with the truth."""
    readings = oracle.readings(PLAN, folder)
    oracle.check_bronze(place, PLAN.events, "duckdb", PLAN)
    oracle.check_silver(place, oracle.truth(PLAN, PLAN.events), "duckdb", readings)
    oracle.check_gold(place, "duckdb", readings)


def plant(table: str, query: str) -> None:
    """Write a table anew, as a query makes it of its rows."""
    (file,) = files(table)
    draft = f"{file}.draft"
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute(f"CREATE VIEW rows AS SELECT * FROM read_parquet('{file}')")
        engine.execute(f"COPY ({query}) TO '{draft}' (FORMAT parquet)")
    Path(draft).replace(file)


def test_right_rows_are_accepted(place: Place, tmp_path: Path) -> None:
    """Otherwise the refusals below would show nothing."""
    check(place, tmp_path)


@pytest.mark.parametrize(
    ("table", "query"),
    [
        (
            BRONZE,
            "SELECT * REPLACE (CASE WHEN _offset = 7 THEN 'x'::BLOB ELSE _payload END AS _payload) FROM rows",
        ),
        (BRONZE, "SELECT * FROM rows WHERE _offset <> 7"),
        (SILVER, "SELECT * FROM rows UNION ALL (SELECT * FROM rows ORDER BY event_id LIMIT 1)"),
        (SILVER, "SELECT * FROM rows ORDER BY event_id OFFSET 1"),
        (
            SILVER,
            "SELECT * REPLACE (value + (event_id = (SELECT min(event_id) FROM rows))::INT AS value) FROM rows",
        ),
        (
            "quarantine.device_telemetry",
            "SELECT * REPLACE (CASE reason WHEN 'late' THEN 'early' ELSE reason END AS reason) FROM rows",
        ),
        (
            GOLD,
            "SELECT * REPLACE (p95_value + (device_id = (SELECT min(device_id) FROM rows))::INT AS p95_value) FROM rows",
        ),
        (GOLD, "SELECT * FROM rows ORDER BY ALL OFFSET 1"),
        (GOLD, "SELECT * FROM rows UNION ALL (SELECT * FROM rows ORDER BY ALL LIMIT 1)"),
        (
            GOLD,
            "(FROM rows ORDER BY ALL OFFSET 1) UNION ALL (FROM rows ORDER BY ALL LIMIT 1 OFFSET 1)",
        ),
    ],
    ids=[
        "payload",
        "record_lost",
        "copy",
        "reading_lost",
        "value",
        "reason",
        "p95",
        "window_lost",
        "window_twice",
        "window_twice_for_another",
    ],
)
def test_a_wrong_row_is_refused(place: Place, tmp_path: Path, table: str, query: str) -> None:
    """Of each table: one row too many, too few, or another."""
    plant(place.table(table), query)

    with pytest.raises(WrongRowsError):
        check(place, tmp_path)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Worker]]:
    """Return two contestants without a JVM, in their processes."""
    with workers(("duckdb", "polars"), tmp_path_factory.mktemp("logs")) as found:
        yield found


def ground(started: dict[str, Worker], folder: Path) -> Ground:
    """Return a ground with their samples in a folder."""
    samples = Samples(folder / "samples.jsonl")
    return Ground(
        work=folder,
        address="",
        topic="",
        plan=PLAN,
        workers=started,
        samples=samples,
        show=lambda _: None,
    )


def measured(found: Ground, spoil: Callable[[Place, str], None]) -> None:
    """Have both make the windows, after which something happens to them."""
    row = Row(name="windows", table=GOLD, source=SILVER, contestants=("duckdb", "polars"))

    def once(name: str) -> tuple[Cost, float]:
        place = found.fresh(row, name)
        bronze(place)
        cleaning = DuckDb()
        cleaning.begin(found.work / "log")
        cleaning.catch_up((SILVER,), place)
        readings = oracle.readings(PLAN, found.work)
        (file,) = files(place.table(SILVER))
        write_deltalake(place.table(SILVER), pq.read_table(file), mode="append")
        cost = found.worker(name).ask("catch_up", row.tables, place)
        spoil(place, name)
        oracle.check_gold(place, name, readings)
        return cost, cost.wall

    found.measure("peers", row, 1, once)


def test_a_peer_with_wrong_rows_is_named_and_the_others_are_measured(
    started: dict[str, Worker], tmp_path: Path
) -> None:
    """A figure of wrong rows is none; it is no reason to lose those of the others."""
    found = ground(started, tmp_path)

    measured(found, lambda place, name: _spoil(place) if name == "polars" else None)

    assert {each.contestant for each in found.samples.all} == {"duckdb"}
    assert "polars gold" in found.refused["windows", "polars"]


def test_a_figure_has_the_memory_and_the_bytes_of_its_process(
    started: dict[str, Worker], tmp_path: Path
) -> None:
    """Of the run alone, and not of what the process had before."""
    found = ground(started, tmp_path)

    measured(found, lambda *_: None)

    assert {each.contestant for each in found.samples.all} == {"duckdb", "polars"}
    assert all(each.peak > 10_000_000 for each in found.samples.all)
    assert all(each.written > 0 for each in found.samples.all)


def _spoil(place: Place) -> None:
    plant(place.table(GOLD), "SELECT * FROM rows ORDER BY ALL OFFSET 1")


def counted(place: Place, change: str = "views") -> None:
    """Write the views of all windows, as DuckDB counts them from the payloads."""
    target = Path(place.table(ADS[-1]))
    target.mkdir(parents=True, exist_ok=True)
    texts = [[payload.decode()] for payload, _ in ads.payloads(FEW_ADS)]
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("CREATE TABLE campaigns (ad VARCHAR, campaign_id VARCHAR)")
        engine.executemany("INSERT INTO campaigns VALUES (?, ?)", [*ads.CAMPAIGN_OF.items()])
        (target / "texts.txt").write_text("\n".join(text for (text,) in texts))
        engine.execute(f"""
            COPY (
              SELECT campaign_id, window_from, {change} AS views FROM (
                SELECT campaign_id, time_bucket(INTERVAL 10 SECOND, epoch_ms((event ->> 'event_time')::BIGINT)) AS window_from,
                  count(*) AS views
                FROM (SELECT column0::JSON AS event FROM read_csv('{target}/texts.txt', header = false, sep = '\t', quote = ''))
                JOIN campaigns ON event ->> 'ad_id' = ad WHERE event ->> 'event_type' = 'view' GROUP BY ALL)
            ) TO '{target}/views.parquet' (FORMAT parquet)
        """)
    (target / "texts.txt").unlink()


@pytest.mark.parametrize(
    ("change", "is_right"), [("views", True), ("views + (views % 7 = 0)::INT", False)]
)
def test_views_that_were_counted_wrong_are_refused(
    tmp_path: Path, change: str, *, is_right: bool
) -> None:
    """DuckDB counts the payloads that are sent, the truth what they are made of."""
    place = Place(root=tmp_path, address="", topic="")
    counted(place, change)
    newest = ads.SINCE_MS + FEW_ADS - 1

    if is_right:
        ad_views.check(place, "flink", ads.views(FEW_ADS), newest)
    else:
        with pytest.raises(WrongRowsError, match="windows are others"):
            ad_views.check(place, "flink", ads.views(FEW_ADS), newest)
