"""The Yahoo streaming benchmark: from events of advertisements in Kafka to views by campaign and ten seconds.

A stream of tables has the windows that are closed; what ends with its input, and what emits each change, has all of them.
"""

from collections.abc import Iterable, Iterator, Mapping

import duckdb
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from tests.benchmarks.contestants.contestant import ADS, Place, files
from tests.benchmarks.contestants.roster import process_of
from tests.benchmarks.feed import has_all
from tests.benchmarks.ground import Ground, Row
from tests.benchmarks.oracle import WrongRowsError
from tests.benchmarks.workers import Cost
from tests.benchmarks.yahoo import ads

CLOSED_AFTER_MS = {"strandline": 75_000, "tuned": 75_000}
"""How far each one's watermark stays behind."""
IN_KAFKA = {"kafka-streams"}
"""Whose answer is a topic."""
BATCH = 100_000
READING = {
    "group.id": "oracle",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
Views = Mapping[tuple[str, int], int]


def preload(address: str, count: int) -> str:
    """Send the events unless the topic has them, and return its name."""
    topic = Topic(name=f"ad-events-{count}", partitions=ads.PARTITIONS)
    there = topic.name in broker.topics(address, {})
    if not (there and has_all(address, [topic], count)):
        ads.send(count, address, topic.name)
    return topic.name


def run(ground: Ground, rounds: int, row: Row, part: str, count: int) -> None:
    """Measure it, the topic of ads in the ground's address."""
    topic, truth = preload(ground.address, count), ads.views(count)

    def once(name: str) -> tuple[Cost, float]:
        place = ground.fresh(row, name, topic=topic)
        cost = ground.worker(name).ask("catch_up", ADS, place)
        check(place, name, truth, ads.SINCE_MS + count - 1)
        if process_of(name) in IN_KAFKA:
            forget(place)
        return cost, cost.wall

    ground.measure(part, row, rounds, once)


def forget(place: Place) -> None:
    """Remove the topics of a run, its own and those that keep its state: the next run has others."""
    admin = AdminClient({"bootstrap.servers": place.address})
    made = [name for name in admin.list_topics().topics if name.startswith(place.counted)]
    for gone in admin.delete_topics(made).values():
        gone.result()


def check(place: Place, name: str, truth: Views, newest: int) -> None:
    """Demand each count of each window that must be there, and no other."""
    who = process_of(name)
    found = _in_kafka(place) if who in IN_KAFKA else _in_files(place)
    delay = CLOSED_AFTER_MS.get(who)
    bound = newest - delay if delay is not None else newest + ads.WINDOW_MS
    expected = {key: views for key, views in truth.items() if key[1] + ads.WINDOW_MS <= bound}
    if found != expected:
        wrong = sum(found.get(key) != expected.get(key) for key in {*found, *expected})
        message = f"{name} views: {wrong} of {len(expected)} windows are others than there must be"
        raise WrongRowsError(message)


def _in_files(place: Place) -> Views:
    there = files(place.table(ADS[-1]))
    if not there:
        return {}
    sql = "SELECT campaign_id, epoch_ms(window_from::TIMESTAMP), views FROM read_parquet($files)"
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        rows = engine.execute(sql, {"files": there}).fetchall()
    return _once(rows)


def _once(rows: Iterable[tuple[str, int, int]]) -> Views:
    found: dict[tuple[str, int], int] = {}
    for campaign, begins, views in rows:
        if (campaign, begins) in found:
            message = f"the window of {campaign} at {begins} is there twice"
            raise WrongRowsError(message)
        found[campaign, begins] = views
    return found


def _in_kafka(place: Place) -> Views:
    """Return the last count of each window; a change is a message."""
    found: dict[tuple[str, int], int] = {}
    for record in changes(place):
        campaign, _, begins = (record.key() or b"").decode().partition("@")
        found[campaign, int(begins)] = int.from_bytes(record.value() or b"", "big")
    return found


def changes(place: Place) -> Iterator[Message]:
    """Yield all that a contestant has written to its topic, each partition in its order."""
    topic, ended = place.counted, set[int | None]()
    consumer = Consumer({"bootstrap.servers": place.address, **READING})
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        while len(ended) < len(partitions):
            for record in consumer.consume(BATCH, 1.0):
                if record.error() is not None:  # the end, which markers of transactions lie before
                    ended.add(record.partition())
                else:
                    yield record
    finally:
        consumer.close()
