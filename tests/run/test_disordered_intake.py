"""Bronze writes into each row the newest arrival that it knew before the row's commit."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs.bronze import device_telemetry as bronze
from jobs.core.modes import AvailableNow
from jobs.core.received import RECEIVED
from jobs.core.table import Table, Topic
from jobs.run import delta
from jobs.run.balance import balance
from jobs.run.bronze import PROPERTIES
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, last_entry
from jobs.run.runner import Site, run
from jobs.silver import device_telemetry as silver
from tests.run.records import HOUR, NOON, make, put
from tests.support.rows import NOON as STANDS

pytestmark = pytest.mark.kafka
YEAR_9999 = (datetime(9999, 1, 1, tzinfo=NOON.tzinfo) - NOON) // timedelta(milliseconds=1)


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a world with a broker, in which it is noon."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def table(topic: Topic, kafka: str) -> Table:
    """Return a bronze table that is filled from the test's own topic, which is there."""
    make(kafka, topic)
    return replace(bronze.TABLE, reads=(topic,))


def marks(site: Site, table: Table, lake: Lake) -> dict[int, str | None]:
    """Return for each commit what its rows say was the newest arrival before it."""
    rows = site.spark.read.format("delta").load(str(lake.table(table)))
    told = rows.selectExpr("_batch", "cast(_newest_before as string) AS mark").distinct().collect()
    assert len(told) == len({row["_batch"] for row in told}), "a commit has one mark"
    return {row["_batch"]: row["mark"] for row in told}


def test_each_commit_knows_the_newest_arrival_before_it_and_no_later_one_than_the_clock(
    table: Table, lake: Lake, site: Site
) -> None:
    """A record of the year 9999 counts as one of now, and one of hours ago does not take the mark back."""
    for records in (
        [(0, -3 * HOUR), (1, -2 * HOUR)],
        [(0, -4 * HOUR)],
        [(1, YEAR_9999)],
        [(0, -1 * HOUR)],
    ):
        put(str(site.address), table.topics[0], records)
        run(table, AvailableNow(), lake, site=site)

    two_hours_ago, now = "2026-11-20 10:00:00", "2026-11-20 12:00:00"
    assert STANDS == NOON
    assert marks(site, table, lake) == {0: None, 1: two_hours_ago, 2: two_hours_ago, 3: now}
    assert balance(table, lake).faults == []


def test_a_bronze_table_of_an_older_version_gets_the_column_and_its_stream_goes_on(
    table: Table, lake: Lake, site: Site
) -> None:
    """What it had read knows no newest arrival; from the second commit on the law holds."""
    older = StructType([field for field in RECEIVED if field.name != "_newest_before"])
    source = replace(silver.TABLE, reads=(table,))
    columns = {name: told.replace(",_newest_before", "") for name, told in PROPERTIES.items()}
    delta.create(site.spark, lake.table(table), older, properties=columns)
    commit = delta.Commit(site.spark, lake.table(table))
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
