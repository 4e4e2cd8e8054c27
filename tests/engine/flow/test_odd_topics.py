"""Records and topics as no producer should make them: each record is in one place, and none moves the watermark."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.bronze import user_actions as bronze
from fleet.silver import user_actions as silver
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from tests.engine.records import admin, expire, make
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

BEGIN = 1  # the C client takes 0 for now
END = 253_402_300_799_000
"""The last second of the year 9999, in milliseconds."""
NONE = -1
MICROSECONDS = 1_760_000_000_000_000
NANOSECONDS = 1_760_000_000_000_000_000
"""More than Spark can hold; its Kafka reader fails."""
FUTURE = ["late", "from_the_future"]


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker whose clock is at noon."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def tables(topic: Topic) -> tuple[Table, Table]:
    """Return bronze of the test's own topic, and silver above it."""
    received = replace(bronze.TABLE, reads=(topic,))
    return received, replace(silver.TABLE, reads=(received,))


def reasons(silver_table: Table, lake: Lake) -> list[str]:
    """Return the reasons of the one row in the quarantine."""
    (row,) = (
        DeltaTable(lake.quarantine(silver_table)).to_pyarrow_table(columns=["reasons"]).to_pylist()
    )
    return list(row["reasons"])


def send(site: Site, topic: Topic, name: str, arrived: int, partition: int = 0) -> None:
    """Send an action of half past eleven with a given time of arrival."""
    payload = (
        f'{{"action_id": "{name}", "user_id": "u1", "action": "login", "device_id": "dev-1", '
        f'"event_at": "2026-11-20T11:30:00Z"}}'
    )
    producer = Producer({"bootstrap.servers": str(site.address), "log_level": 0})
    producer.produce(topic.name, payload.encode(), partition=partition, timestamp=arrived)
    assert producer.flush(20) == 0


def at(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("arrived", "held"),
    [
        (BEGIN, ["early"]),
        (NONE, ["early"]),
        (END, FUTURE),
        (MICROSECONDS, FUTURE),
        (NANOSECONDS, FUTURE),
    ],
    ids=["in 1970", "at no time", "in 9999", "in microseconds", "in nanoseconds"],
)
def test_a_record_of_an_impossible_time_is_held_and_moves_no_watermark(
    tables: tuple[Table, Table], lake: Lake, site: Site, arrived: int, held: list[str]
) -> None:
    """Later records are admitted as if it had not been there."""
    received, judged = tables
    (topic,) = received.topics
    make(str(site.address), topic)
    send(site, topic, "before", at(NOON - timedelta(minutes=29)))
    send(site, topic, "odd", arrived)
    for table in tables:
        run(table, AvailableNow(), lake, site=site)
    send(site, topic, "after", at(NOON - timedelta(minutes=28)))

    for table in tables:
        run(table, AvailableNow(), lake, site=site)

    sheet = balance(judged, lake)
    assert sheet.balanced, sheet.faults
    assert (sheet.good, sheet.dropped_by_watermark) == (2, 0)
    assert reasons(judged, lake) == held


@pytest.mark.whole
def test_a_partition_that_is_added_while_a_stream_runs_is_read_from_its_beginning(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """A partition that loses records which the stream has read already does not stop it."""
    received, _ = tables
    (topic,) = received.topics
    make(str(site.address), topic)
    send(site, topic, "first", at(NOON))
    commits: list[Entry] = []

    def committed(entry: Entry) -> None:
        commits.append(entry)
        if len(commits) == 1:
            expire(str(site.address), topic, 0, 1)
            more = NewPartitions(topic.name, 3)
            client = admin(str(site.address))  # its futures resolve only while it is referenced
            client.create_partitions([more])[topic.name].result(20)
            send(site, topic, "second", at(NOON), partition=2)
            send(site, topic, "third", at(NOON))

    run(
        received,
        MicroBatch(every=0.05),
        lake,
        site=site,
        on_commit=committed,
        stopped=lambda: sum(entry.read for entry in commits) >= 3,
    )

    sheet = balance(received, lake)
    assert sheet.balanced, sheet.faults
    assert sheet.read == 3
    newest = last_entry(lake.table(received))
    assert newest is not None
    ends = {name: end for name, (_, end) in newest[1].offsets.items()}
    assert ends == {f"{topic.name}/0": 2, f"{topic.name}/1": 0, f"{topic.name}/2": 1}


def test_a_stream_goes_on_past_a_producer_that_counts_nanoseconds(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """Every record is in bronze byte by byte, once, whichever client has read it."""
    received, _ = tables
    (topic,) = received.topics
    make(str(site.address), topic)
    for number in range(6):
        wrong = number % 2
        send(
            site, topic, f"n{number}", NANOSECONDS if wrong else at(NOON), partition=number % 3 % 2
        )
    heard: list[Entry] = []

    def hear(entry: Entry) -> None:
        heard.append(entry)
        if len(heard) == 1:
            send(site, topic, "n6", at(NOON))

    run(
        received,
        MicroBatch(every=0.05),
        lake,
        site=site,
        on_commit=hear,
        stopped=lambda: sum(entry.read for entry in heard) >= 7,
    )

    sheet = balance(received, lake)
    assert sheet.balanced, sheet.faults
    rows = site.spark.read.format("delta").load(str(lake.table(received))).collect()
    assert sorted(bytes(row["_payload"])[15:17] for row in rows) == [
        f"n{number}".encode() for number in range(7)
    ]
    beyond = [row for row in rows if row["_arrived_at"].year == 9999]
    assert len(beyond) == 3
