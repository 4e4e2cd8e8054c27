"""Kafka is asked about offsets that the lake has not read; a broker that does not answer is reported."""

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.bronze import dhcp_events as bronze
from fleet.bronze import user_actions as actions
from strandline.core.stateful import AvailableNow
from strandline.core.topic import Topic
from strandline.engine.ask.locate import Finding, Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from tests.engine.records import drop, expire, make, put, put_transactions
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

(TOPIC,) = bronze.TABLE.topics


def make_anew(address: str, topic: Topic) -> None:
    """Make a declared topic; another test of this broker may have had the topics of all tables made."""
    if topic.name in broker.topics(address, {}):
        drop(address, topic)
    make(address, topic)


@pytest.fixture(scope="module")
def read(
    spark: SparkSession, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Make a lake that has read some of a topic.

    Partition 0 has a transaction of two records, and an aborted one. Of partition 1 the lake has read records 4 to 9,
    because the first four had expired; Kafka has records up to 13 there, and 10 and 11 have expired since.
    """
    lake = Lake(tmp_path_factory.mktemp("read")).open_for_writing()
    make_anew(kafka, TOPIC)
    put_transactions(kafka, TOPIC, [2, -1])
    put(kafka, TOPIC, [(1, n) for n in range(10)])
    expire(kafka, TOPIC, 1, 4)
    site = Site(spark=spark, clock=lambda: NOON, address=kafka)
    run(bronze.TABLE, AvailableNow(), lake, site=site)
    put(kafka, TOPIC, [(1, n) for n in range(10, 14)])
    expire(kafka, TOPIC, 1, 12)
    yield World(lake=lake, now=NOON, address=kafka)
    drop(kafka, TOPIC)


def asked(world: World, place: str) -> Finding:
    return why(f"{TOPIC.name}/{place}", None, world)


@pytest.mark.parametrize(
    ("place", "verdict"),
    [
        ("0/1", Verdict.NOT_READ_YET),
        ("0/2", Verdict.NO_RECORD),
        ("0/3", Verdict.NO_RECORD),
        ("0/5", Verdict.NEVER_PRODUCED),
        ("1/0", Verdict.EXPIRED),
        ("1/4", Verdict.NOT_READ_YET),
        ("1/10", Verdict.EXPIRED),
        ("1/12", Verdict.NOT_READ_YET),
        ("1/13", Verdict.NOT_READ_YET),
        ("1/14", Verdict.NEVER_PRODUCED),
        ("7/0", Verdict.NEVER_PRODUCED),
    ],
)
def test_every_offset_has_one_verdict(read: World, place: str, verdict: Verdict) -> None:
    """Whether it is before, in, between or beyond what the lake has read and what Kafka has."""
    assert asked(read, place).verdict is verdict


def test_the_verdict_has_the_bounds_of_kafka_and_the_lag(read: World) -> None:
    """The lagging table, and the first and last offset that Kafka has."""
    in_kafka, in_bronze, hole = (asked(read, place) for place in ("1/13", "1/4", "0/3"))

    assert in_kafka.evidence["kafka"] == {"from": 12, "until": 14}
    assert in_kafka.evidence["bronze"] == {"from": 4, "until": 10}
    assert in_kafka.evidence["lag"] == 4
    assert "expected_at" in in_kafka.evidence
    assert "silver.dhcp_events was never run" in in_bronze.sentence
    assert hole.evidence["without_record"] == 3


def test_a_key_that_is_nowhere_may_be_in_records_that_only_kafka_has(read: World) -> None:
    """Their number is reported."""
    finding = why("x", catalog.find("silver.dhcp_events"), read)

    assert (finding.verdict, finding.evidence["unread_in_kafka"]) == (Verdict.UNKNOWN, 4)
    assert "it may be among the 4 records in Kafka" in finding.sentence
    assert "4 records had expired in Kafka before bronze read them" in finding.sentence


def test_a_key_that_was_searched_for_everywhere_was_never_produced(
    spark: SparkSession, kafka: str, lake: Lake
) -> None:
    """Bronze has all records that its topic ever had, and each was examined."""
    table = actions.TABLE
    (topic,) = table.topics
    make_anew(kafka, topic)
    put(kafka, topic, [(0, n) for n in range(5)])
    site = Site(spark=spark, clock=lambda: NOON, address=kafka)
    run(table, AvailableNow(), lake, site=site)
    world = World(lake=lake, now=NOON, address=kafka)

    finding = why("no-such-key", catalog.find("silver.user_actions"), world)
    drop(kafka, topic)

    assert finding.verdict is Verdict.NEVER_PRODUCED
    assert (finding.evidence["searched_in_bronze"], finding.evidence["unread_in_kafka"]) == (5, 0)


@pytest.mark.whole
@pytest.mark.parametrize("address", [None, "127.0.0.1:1"])
def test_a_broker_that_does_not_answer_is_reported_and_breaks_nothing(
    read: World, clock: Callable[[], datetime], address: str | None
) -> None:
    """Questions that the lake alone can answer are answered as before."""
    world = World(lake=read.lake, now=clock(), address=address)

    beyond, before, hole = (asked(world, place) for place in ("1/13", "1/0", "0/2"))

    assert beyond.verdict is Verdict.NOT_READ_YET
    assert "broker" in str(beyond.evidence["not_asked"])
    assert (before.verdict, hole.verdict) == (Verdict.EXPIRED, Verdict.NO_RECORD)
