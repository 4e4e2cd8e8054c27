"""A feed answers alike in every mode, and its ledger says what it read and wrote."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from threading import Thread

import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.alerting.live import feeds
from strandline.alerting.one_plan import alert_id
from strandline.alerting.tables.silver import FIELDS
from strandline.core.errors import DataError
from strandline.core.stateful import AvailableNow, Continuous, FeedMode, MicroBatch, RealTime
from strandline.core.table import Feed
from strandline.core.topic import Topic
from strandline.engine.flow import feed_query
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, last_entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import running_tasks
from tests.engine.records import drop, expire, make
from tests.rules.test_correlate import RULES
from tests.support.engine import as_in_production
from tests.support.feeds import DECODES, feed, records, send, start
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

MODES = (RealTime(every=5.0), Continuous(every=0.5), MicroBatch(every=0.1), AvailableNow())
LATE = NOON - timedelta(hours=2)
EVENTS = [
    start("a", fires=True),
    start("b", fires=False),
    b"no JSON",
    start("c", fires=True, at=LATE),
    start("d", fires=True),
    start("a", fires=True),
]
"""Of six events three raise an alert, and two of them are copies: late ones and those that are no rows raise none."""


@pytest.fixture
def alerts(kafka: str) -> Feed:
    """Return a feed over topics that no other test knows."""
    source, sink = (Topic(name=f"t-{token_hex(4)}", partitions=1) for _ in range(2))
    make(kafka, source)
    make(kafka, sink)
    return feed(source, sink)


def ledger(spark: SparkSession, alerts: Feed, mode: FeedMode, lake: Lake, kafka: str) -> FeedLedger:
    return FeedLedger(spark, alerts, mode, lake, address=kafka, options={})


@contextmanager
def running(
    spark: SparkSession, alerts: Feed, mode: FeedMode, lake: Lake, kafka: str
) -> Iterator[FeedLedger]:
    """Run a feed from the first record on."""
    books = ledger(spark, alerts, mode, lake, kafka)
    begins = books.begin(from_the_first=True)
    client = feed_query.client(kafka, {})
    query = feed_query.start(spark, alerts, mode, lake, kafka=client, begins=begins)
    try:
        yield books
        assert query.exception() is None
    finally:
        query.stop()
        books.close()


def wait(until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 300
    while not until():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def settled(books: FeedLedger, alerts: Feed, end: int, path: Place) -> bool:
    """Return whether the ledger has all events up to an offset."""
    books.settle(at_once=True)
    found = last_entry(path)
    return found is not None and found[1].offsets[f"{alerts.topics[0]}/0"][1] == end


@pytest.mark.whole
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_mode_raises_the_same_alerts_and_accounts_for_each_record(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed, mode: FeedMode
) -> None:
    (source,) = alerts.topics
    send(kafka, source, EVENTS)

    with running(spark, alerts, mode, lake, kafka) as books:
        wait(lambda: len(records(kafka, alerts.to)) == 3, "the alerts")
        wait(lambda: settled(books, alerts, len(EVENTS), lake.table(alerts)), "a checkpoint")

    found = [json.loads(record.value() or b"") for record in records(kafka, alerts.to)]
    assert [each["event_offset"] for each in found] == [0, 4, 5]
    row = {"ProcessGuid": "a", "UtcTime": NOON}
    assert found[0]["alert_id"] == found[2]["alert_id"] == alert_id(DECODES, row)
    assert {*found[0]} <= {*FIELDS.names}
    assert [r.key() for r in records(kafka, alerts.to)] == [e["alert_id"].encode() for e in found]
    first, *later = (entry for _, entry in entries(lake.table(alerts)))
    assert (first.batch, first.read) == (-1, 0)
    assert sum(entry.read for entry in later) == len(EVENTS)
    assert sum(entry.written for entry in later) == 3
    assert later[-1].offsets[f"{source}/0"][1] == len(EVENTS)
    assert later[-1].sent[f"{alerts.to}/0"][1] == 3


@pytest.mark.whole
def test_a_checkpoint_that_is_gone_is_made_anew_where_the_ledger_ends(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """And the offsets of one entry begin where those before it ended, whatever mode wrote them."""
    (source,) = alerts.topics
    for number, mode in enumerate((MicroBatch(every=0.1), AvailableNow(), Continuous(every=0.5))):
        send(kafka, source, [start(f"g{number}", fires=True)])
        with running(spark, alerts, mode, lake, kafka) as books:
            end = number + 1
            wait(lambda: settled(books, alerts, end, lake.table(alerts)), "a checkpoint")  # noqa: B023  # called at once
        if number == 0:
            lake.checkpoint(alerts).remove()

    found = [entry for _, entry in entries(lake.table(alerts))]
    assert [e.offsets[f"{source}/0"] for e in found if e.read] == [(0, 1), (1, 2), (2, 3)]
    assert [e.sent[f"{alerts.to}/0"][0] for e in found[1:]] == [
        e.sent[f"{alerts.to}/0"][1] for e in found[:-1]
    ]
    assert len(records(kafka, alerts.to)) == 3


@contextmanager
def busy(spark: SparkSession, pool: str, milliseconds: int) -> Iterator[Thread]:
    """Keep a task of a pool busy for a while."""
    sleep = f"java_method('java.lang.Thread', 'sleep', {milliseconds}L)"

    def work() -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        spark.range(1, numPartitions=1).selectExpr(sleep).collect()

    thread = Thread(target=work)
    thread.start()
    wait(lambda: running_tasks(spark, pool) > 0, "a task")
    yield thread
    thread.join()


def test_a_query_is_stopped_when_no_task_of_its_own_runs_any_more(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """Spark asks tasks to end and does not wait; what they went on to read, two versions of a rule have judged."""
    books = ledger(spark, alerts, MODES[2], lake, kafka)
    client = feed_query.client(kafka, {})
    begins = books.begin(from_the_first=True)
    query = feed_query.start(spark, alerts, MODES[2], lake, kafka=client, begins=begins)

    with busy(spark, alerts.id, 1_000) as own, busy(spark, "another", 6_000) as other:
        feed_query.stop(spark, alerts, query)

        assert running_tasks(spark, alerts.id) == 0
        own.join(2)
        assert not own.is_alive()
        assert other.is_alive()
    books.close()


def test_a_feed_that_starts_for_the_first_time_begins_with_what_comes(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """It notes where, so that a crash before its first checkpoint loses nothing."""
    (source,) = alerts.topics
    send(kafka, source, EVENTS)
    first = ledger(spark, alerts, RealTime(), lake, kafka)
    begins = first.begin(from_the_first=False)
    first.close()
    send(kafka, source, EVENTS)

    again = ledger(spark, alerts, RealTime(), lake, kafka)

    assert again.begin(from_the_first=False) == begins == {(source.name, 0): len(EVENTS)}
    assert again.lag() == len(EVENTS)
    again.close()


def test_a_feed_that_counts_runs_in_micro_batches_whatever_the_mode_is() -> None:
    (counts,) = feeds(RULES[:1])
    others = [feed_query.mode_of(counts, mode).name for mode in MODES]

    assert others == ["micro-batch", "micro-batch", "micro-batch", "available-now"]
    assert feed_query.mode_of(counts, MicroBatch(every=7.0)) == MicroBatch(every=7.0)
    assert [feed_query.slots(mode, 4) for mode in MODES] == [6, 6, 0, 0]


def test_the_clock_of_a_batch_is_no_part_of_its_code(spark: SparkSession) -> None:
    """Or each batch of a second would be compiled anew, beside the alerts that are to be raised at once."""
    plain = [F.lit(NOON + timedelta(seconds=second)) for second in (1, 2)]
    held = [F.call_function("batch_value", clock) for clock in plain]
    moment = F.timestamp_seconds(F.col("id") + int(NOON.timestamp()))

    def before(clock: Column) -> DataFrame:
        return spark.range(4).select((moment < clock).alias("is_before"))

    def code(clock: Column) -> str:
        stages = before(clock)._jdf.queryExecution().debug().codegenToSeq()
        return str(stages.apply(0)._2())

    with as_in_production(spark):
        assert code(plain[0]) != code(plain[1])
        assert code(held[0]) == code(held[1])
        answers = [[row[0] for row in before(clock).collect()] for clock in held]
    assert answers == [[True, False, False, False], [True, True, False, False]]


@pytest.mark.whole
def test_a_topic_that_was_made_anew_is_refused(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """Its offsets mean other events; the ids of topics are in each entry."""
    ledger(spark, alerts, RealTime(), lake, kafka).begin(from_the_first=True)
    drop(kafka, alerts.to)
    make(kafka, alerts.to)

    with pytest.raises(DataError, match="recreated"):
        ledger(spark, alerts, RealTime(), lake, kafka)


def test_records_are_counted_as_they_come(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """At the end of five minutes there may be a million, and to read them then holds up the alerts of that moment."""
    books = ledger(spark, alerts, RealTime(), lake, kafka)
    books.begin(from_the_first=True)
    put_own(kafka, alerts, 3)
    assert books.settle() is None  # it is too early for an entry
    expire(kafka, alerts.to, 0, before=4)  # what is not read by now is never read
    put_own(kafka, alerts, 2)

    found = books.settle(at_once=True)

    assert found is not None
    assert (found.written, found.sent) == (5, {f"{alerts.to}/0": (0, 7)})
    put_own(kafka, alerts, 1)
    again = books.settle(at_once=True)
    assert again is not None
    assert (again.written, again.sent) == (1, {f"{alerts.to}/0": (7, 9)})
    books.close()


def put_own(address: str, alerts: Feed, count: int) -> None:
    """Send records of a feed to its topic, and one of others."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for headers in (*count * [[(feed_query.FEED, alerts.id.encode())]], None):
        producer.produce(alerts.to.name, b"{}", partition=0, headers=headers)
    producer.flush(20)


def test_only_the_records_of_a_feed_are_counted_as_its_own(
    spark: SparkSession, lake: Lake, kafka: str, alerts: Feed
) -> None:
    """Several feeds write to one topic, and so may people."""
    (source,) = alerts.topics
    other = replace(alerts, name="other")
    books = ledger(spark, other, AvailableNow(), lake, kafka)
    books.begin(from_the_first=True)
    send(kafka, alerts.to, [b"{}"])
    send(kafka, source, EVENTS)
    with running(spark, alerts, AvailableNow(), lake, kafka) as own:
        wait(lambda: settled(own, alerts, len(EVENTS), lake.table(alerts)), "a checkpoint")

    assert len(records(kafka, alerts.to)) == 4
    _, *later = (entry for _, entry in entries(lake.table(alerts)))
    part = f"{alerts.to}/0"
    assert sum(entry.written for entry in later) == 3
    assert (later[0].sent[part][0], later[-1].sent[part][1]) == (1, 4)
    books.close()
