"""Bronze writes into each row the newest arrival before the row's commit."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fleet.bronze import device_telemetry as bronze
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.core.topic import RECEIVED, Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from tests.engine.records import HOUR, NOON, make, put
from tests.support.rows import NOON as CLOCK

pytestmark = [pytest.mark.kafka, pytest.mark.whole]
YEAR_9999 = (datetime(9999, 1, 1, tzinfo=NOON.tzinfo) - NOON) // timedelta(milliseconds=1)


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker whose clock is at noon."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def table(topic: Topic, kafka: str) -> Table:
    """Return a bronze table that reads the test's own topic, which exists."""
    make(kafka, topic)
    return replace(bronze.TABLE, reads=(topic,))


def marks(site: Site, table: Table, lake: Lake) -> dict[int, str | None]:
    """Return for each commit the newest arrival before it, as its rows have it."""
    rows = site.spark.read.format("delta").load(str(lake.table(table)))
    by_commit = (
        rows.selectExpr("_batch", "cast(_newest_before as string) AS mark").distinct().collect()
    )
    assert len(by_commit) == len({row["_batch"] for row in by_commit}), "a commit has one mark"
    return {row["_batch"]: row["mark"] for row in by_commit}


def test_each_commit_has_the_newest_arrival_before_it_that_its_readers_clock_admits(
    table: Table, lake: Lake, site: Site
) -> None:
    """An impossible time is ignored, one slightly ahead counts as now, and an old one does not move the mark back."""
    for records in (
        [(0, YEAR_9999), (1, HOUR)],
        [(0, -3 * HOUR), (1, -2 * HOUR), (1, YEAR_9999)],
        [(0, -4 * HOUR), (0, HOUR)],
        [(0, -1 * HOUR), (0, HOUR // 60)],
        [(0, -1 * HOUR)],
    ):
        put(str(site.address), table.topics[0], records)
        run(table, AvailableNow(), lake, site=site)

    nothing, two_hours_ago = "1970-01-01 00:00:00.001", "2026-11-20 10:00:00"
    now = "2026-11-20 12:00:00"
    assert CLOCK == NOON
    assert marks(site, table, lake) == {
        0: nothing,
        1: nothing,
        2: two_hours_ago,
        3: two_hours_ago,
        4: now,
    }
    assert balance(table, lake).faults == []


def test_a_bronze_table_of_an_older_version_gets_the_column_and_its_stream_goes_on(
    table: Table, lake: Lake, site: Site
) -> None:
    """Its older rows have no newest arrival; from the second commit on disorder is judged."""
    older = StructType([field for field in RECEIVED if field.name != "_newest_before"])
    source = replace(silver.TABLE, reads=(table,))
    columns = {name: value.replace(",_newest_before", "") for name, value in PROPERTIES.items()}
    create_table.create(site.spark, lake.table(table), older, properties=columns)
    commit = delta_commit.Commit(site.spark, lake.table(table))
    topic = table.topics[0].name
    row: tuple[object, ...] = (topic, 0, 0, NOON - timedelta(hours=9), None, b"{}", [], 0, NOON)
    commit.write(site.spark.createDataFrame([row], older).coalesce(1))
    put(str(site.address), table.topics[0], [(0, -9 * HOUR)])
    entry = Entry(
        table=table.id,
        mode="available-now",
        stream="",
        batch=0,
        source=topic,
        offsets={f"{topic}/0": (0, 1), f"{topic}/1": (0, 0)},
        read=1,
        good=1,
        written=1,
    )
    commit.commit(entry.encoded())
    run(source, AvailableNow(), lake, site=site)

    for records in ([(0, -1 * HOUR)], [(0, -9 * HOUR)]):
        put(str(site.address), table.topics[0], records)
        for each in (table, source):
            run(each, AvailableNow(), lake, site=site)

    assert marks(site, table, lake) == {0: None, 1: None, 2: "2026-11-20 11:00:00"}
    newest = last_entry(lake.table(table))
    assert newest is not None
    assert newest[1].newest_arrival == "2026-11-20T11:00:00+00:00"
    sheet = balance(source, lake)
    assert (sheet.faults, sheet.read, sheet.dropped_by_watermark) == ([], 3, 0)
