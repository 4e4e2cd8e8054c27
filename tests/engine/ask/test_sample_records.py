"""Some records of a topic or of its bronze table, for a person who wants to know what they are like."""

from collections.abc import Iterable

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError
from strandline.core.topic import Topic
from strandline.engine.ask.locate import (
    MOST_BYTES,
    of_bronze,
    of_topic,
    spread,
    topics_beside,
)
from strandline.engine.lake.lake import Lake
from tests.engine.records import make
from tests.support.events import readings, received

EVENTS = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d1     | 09:01:00 | 09:01:01   | 2.5
    1     | e3 | d2     | 09:02:00 | 09:02:01   | 3.5
    2     | e4 | d2     | 09:03:00 | 09:03:01   | 4.5
"""


def put(address: str, topic: Topic, records: Iterable[tuple[int, bytes]]) -> None:
    """Send payloads to partitions."""
    producer = Producer({"bootstrap.servers": address})
    for partition, payload in records:
        producer.produce(topic.name, payload, partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.kafka
def test_records_come_from_the_begin_and_the_end_of_each_partition(
    kafka: str, topic: Topic
) -> None:
    """A bounded number of them, of however many."""
    make(kafka, topic)
    for partition in (0, 1):
        put(kafka, topic, [(partition, b"%d-%d" % (partition, n)) for n in range(1_000)])

    found = of_topic(kafka, {}, topic, 40)

    values = {each.payload for each in found.records}
    assert len(found.records) == 40
    assert found.held == 2_000
    assert {b"0-0", b"0-999", b"1-0", b"1-999"} <= values


@pytest.mark.kafka
def test_few_large_records_are_enough(kafka: str, topic: Topic) -> None:
    """Of a megabyte each, no more is read than fits the memory."""
    make(kafka, topic)
    put(kafka, topic, [(0, b"x" * 900_000) for _ in range(60)])

    found = of_topic(kafka, {}, topic, 10_000)

    assert sum(len(each.payload or b"") for each in found.records) <= MOST_BYTES + 2 * 900_000


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_refused_by_its_name(kafka: str) -> None:
    """With what to do."""
    with pytest.raises(DefinitionError, match="topic nothing-of-it does not exist"):
        of_topic(kafka, {}, Topic(name="nothing-of-it"), 10)


@pytest.mark.kafka
def test_the_topics_beside_one_that_is_not_there_are_those_of_the_cluster(
    kafka: str, topic: Topic
) -> None:
    """So that the one which was meant is found."""
    make(kafka, topic)

    found = topics_beside(kafka, {}, Topic(name="nothing-of-it"))

    assert topic.name in found
    assert "nothing-of-it" not in found


def test_records_of_a_bronze_table_come_from_all_of_its_time(
    spark: SparkSession, lake: Lake
) -> None:
    """One of each file, where one is asked for."""
    received(lake, readings(EVENTS))
    path = lake.table(bronze.TABLE)

    every = of_bronze(path, bronze.TABLE, 10)
    few = of_bronze(path, bronze.TABLE, 3)

    assert spark
    assert every.held == len(every.records) == 4
    assert {each.arrived_at.minute for each in few.records if each.arrived_at} >= {2, 3}


def test_places_are_spread_evenly() -> None:
    """The first and the last are among them."""
    assert spread(range(100), 5) == [0, 25, 50, 74, 99]
    assert spread(range(3), 5) == [0, 1, 2]
