"""Records and topics as no producer should make them: each record is in one place, and none moves time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.bronze import user_actions as bronze
from jobs.core.modes import AvailableNow, MicroBatch
from jobs.core.table import Table, Topic
from jobs.run.balance import balance
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, last_entry
from jobs.run.runner import Site, run
from jobs.silver import user_actions as silver
from tests.run.records import admin, expire, make
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

BEGIN = 1  # the C client takes 0 for now
END = 253_402_300_799_000
"""The last second of the year 9999, in milliseconds."""
NONE = -1


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a world with a broker, in which it is noon."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def tables(topic: Topic) -> tuple[Table, Table]:
    """Return bronze of the test's own topic, and silver above it."""
    received = replace(bronze.TABLE, reads=(topic,))
    return received, replace(silver.TABLE, reads=(received,))


def reasons(silver_table: Table, lake: Lake) -> list[str]:
    """Return why the one row that is held is held."""
    (row,) = (
        DeltaTable(lake.quarantine(silver_table)).to_pyarrow_table(columns=["reasons"]).to_pylist()
    )
    return list(row["reasons"])


def send(site: Site, topic: Topic, name: str, arrived: int, partition: int = 0) -> None:
    """Send an action of half past eleven with some time of arrival."""
    payload = (
        f'{{"action_id": "{name}", "user_id": "u1", "action": "login", "device_id": "dev-1", '
        f'"event_at": "2026-11-20T11:30:00Z"}}'
    )
    producer = Producer({"bootstrap.servers": str(site.address), "log_level": 0})
    producer.produce(topic.name, payload.encode(), partition=partition, timestamp=arrived)
    assert producer.flush(20) == 0


def at(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("arrived", "held"),
    [(BEGIN, ["early"]), (NONE, ["early"]), (END, ["late", "from_the_future"])],
    ids=["in 1970", "at no time", "in 9999"],
)
def test_a_record_of_an_impossible_time_is_held_and_moves_no_watermark(
    tables: tuple[Table, Table], lake: Lake, site: Site, arrived: int, held: list[str]
) -> None:
    """What comes after it, as it happens, is believed as if it had not been there."""
    received, judged = tables
    (topic,) = received.topics
    make(str(site.address), topic)
    send(site, topic, "before", at(NOON - timedelta(minutes=2)))
    send(site, topic, "odd", arrived)
    for table in tables:
        run(table, AvailableNow(), lake, site=site)
    send(site, topic, "after", at(NOON - timedelta(minutes=1)))

    for table in tables:
        run(table, AvailableNow(), lake, site=site)

    sheet = balance(judged, lake)
    assert sheet.balanced, sheet.faults
    assert (sheet.good, sheet.dropped_by_watermark) == (2, 0)
    assert reasons(judged, lake) == held


def test_a_partition_that_is_added_while_a_stream_runs_is_read_from_its_beginning(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """And one that loses what the stream has read already stops nothing."""
    received, _ = tables
    (topic,) = received.topics
    make(str(site.address), topic)
    send(site, topic, "first", at(NOON))
    heard: list[Entry] = []

    def tell(entry: Entry) -> None:
        heard.append(entry)
        if len(heard) == 1:
            expire(str(site.address), topic, 0, 1)
            more = NewPartitions(topic.name, 3)
            client = admin(str(site.address))  # it answers only as long as somebody has it
            client.create_partitions([more])[topic.name].result(20)
            send(site, topic, "second", at(NOON), partition=2)
            send(site, topic, "third", at(NOON))

    run(
        received,
        MicroBatch(every=0.05),
        lake,
        site=site,
        tell=tell,
        stopped=lambda: sum(entry.read for entry in heard) >= 3,
    )

    sheet = balance(received, lake)
    assert sheet.balanced, sheet.faults
    assert sheet.read == 3
    newest = last_entry(lake.table(received))
    assert newest is not None
    ends = {name: end for name, (_, end) in newest[1].offsets.items()}
    assert ends == {f"{topic.name}/0": 2, f"{topic.name}/1": 0, f"{topic.name}/2": 1}
