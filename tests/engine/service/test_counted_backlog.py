"""A feed that counts raises the same alerts however its backlog is cut, also with a clock ahead, and after kills."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import token_hex

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from fleet.bronze import user_actions as bronze
from fleet.silver import user_actions as silver
from strandline.alerting.alert_rule import Counted
from strandline.alerting.live import Counting, Stage
from strandline.core.stateful import AvailableNow
from strandline.core.table import CountingFeed
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import feed_balances
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.spark_checkpoint import kafka_ends
from strandline.engine.service.feed_host import FeedHost
from tests.engine.records import make
from tests.rules.test_correlate import BY_USER, rule
from tests.support.feeds import records

pytestmark = pytest.mark.kafka

THREE = rule("many", Counted.EVENTS, BY_USER, number=3, keys=("user",))
MINUTE = timedelta(minutes=1)
AHEAD = timedelta(days=400)
SPAN = 6 * 60
"""Minutes over which the backlog is spread; what a table waits for is an hour and a quarter."""


@pytest.fixture
def began(clock: Callable[[], datetime]) -> datetime:
    """Return when the backlog begins: it ends now."""
    return datetime.now(clock().tzinfo) - (SPAN + 10) * MINUTE  # noqa: TID251  # Kafka's clock is the real one


@pytest.fixture
def counting(kafka: str) -> CountingFeed:
    """Return a feed of a threshold rule over topics that no other test knows."""
    source = Topic(name=f"t-{token_hex(4)}", partitions=2)
    sink = Topic(name=f"t-{token_hex(4)}", partitions=1)
    make(kafka, source)
    make(kafka, sink)
    table = replace(silver.TABLE, reads=(replace(bronze.TABLE, reads=(source,)),))
    return CountingFeed(
        name="counting",
        of=(table,),
        transform=Counting((Stage(rules=(THREE,), since={}),)),
        key="alert_id",
        to=sink,
    )


class Log:
    """Actions on their way, each at the time of its event."""

    def __init__(self, address: str, topic: Topic) -> None:
        """Send nothing yet."""
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 0})
        self._topic, self.sent = topic, 0

    def act(
        self, at: datetime, partition: int, user: str = "", *, late: timedelta = timedelta()
    ) -> None:
        """Send an action: a failed log-in of a user, or one about which no rule is."""
        self.sent += 1
        event = {
            "action_id": f"a{self.sent}",
            "user_id": user or "no one",
            "action": "failed" if user else "login",
            "device_id": "d",
            "event_at": at.isoformat(),
        }
        stamp = int((at + late).timestamp() * 1000)
        payload = json.dumps(event).encode()
        self._producer.produce(self._topic.name, payload, partition=partition, timestamp=stamp)
        self._producer.flush(20)

    def backlog(self, began: datetime) -> None:
        """Send hours of actions: a busy partition, and a quiet one with the failures; a clock ahead in each of the two."""
        for minute in range(SPAN):
            at = began + minute * MINUTE
            self.act(at, 0)
            if minute == 30:
                self.act(at + AHEAD, 0, "ahead")
                self.act(at + AHEAD, 1, "ahead")
            if minute % 90 == 50:
                for second in range(3):
                    self.act(at + timedelta(seconds=second), 1, f"user{minute}")


def serve(feed: CountingFeed, lake: Lake, site: Site, most: int) -> None:
    mode = AvailableNow(max_offsets=most)
    FeedHost([feed], mode, lake, site, threading.Event(), from_the_first=True).serve(lambda _: None)


def raised(kafka: str, feed: CountingFeed) -> list[bytes | str | None]:
    """Return the ids of the alerts that were raised, copies included."""
    return [record.key() for record in records(kafka, feed.to)]


@pytest.mark.whole
@pytest.mark.parametrize(
    "slices",
    [3, *(pytest.param(n, marks=pytest.mark.prove(alone="half a minute")) for n in (1, 2, 6, 50))],
)
def test_the_same_alerts_however_a_backlog_is_cut(  # noqa: PLR0917, PLR0913  # fixtures
    spark: SparkSession,
    lake: Lake,
    kafka: str,
    clock: Callable[[], datetime],
    counting: CountingFeed,
    began: datetime,
    slices: int,
) -> None:
    log = Log(kafka, counting.topics[0])
    log.backlog(began)

    site, most = Site(spark=spark, clock=clock, address=kafka), -(-log.sent // slices)
    serve(counting, lake, site, most)

    assert len(raised(kafka, counting)) == 4
    found = [entry for _, entry in entries(lake.table(counting))]
    assert sum(entry.read for entry in found) == log.sent
    assert sum(entry.quarantined.get("from_the_future", 0) for entry in found) == 2
    assert sum(entry.good for entry in found) == log.sent - 2
    assert sum(entry.dropped_by_watermark for entry in found) == 0
    (sheet,) = feed_balances(lake)
    assert (sheet.quarantined, sheet.faults) == ({"from_the_future": 2}, [])

    # As a crash leaves it that comes after the topic has the alerts, and before the commit.
    epoch, _ = kafka_ends(lake.checkpoint(counting)) or (0, {})
    (lake.checkpoint(counting) / "commits" / str(epoch)).remove()
    serve(counting, lake, site, most)

    assert len({*raised(kafka, counting)}) == 4
    assert [sheet.faults for sheet in feed_balances(lake)] == [[]]


@pytest.mark.whole("False")
@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_the_watermark_drops_is_in_the_entry_and_a_fault(  # noqa: PLR0917, PLR0913  # fixtures
    spark: SparkSession,
    lake: Lake,
    kafka: str,
    clock: Callable[[], datetime],
    counting: CountingFeed,
    began: datetime,
    monkeypatch: pytest.MonkeyPatch,
    is_killed: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    """Spark's report of an epoch has it; where that was lost with its process, the epoch is counted again."""
    log, site = Log(kafka, counting.topics[0]), Site(spark=spark, clock=clock, address=kafka)
    for minute in (SPAN, SPAN + 1):
        log.act(began + minute * MINUTE, 0)
        serve(counting, lake, site, 100)
    for second in range(3):
        log.act(began + timedelta(seconds=second), 1, "old")
    log.act(began + AHEAD, 1, "ahead")

    with monkeypatch.context() as killed:
        if is_killed:
            killed.setattr(FeedLedger, "settle", lambda *_, **__: None)
        serve(counting, lake, site, 100)
    log.act(began + (SPAN + 2) * MINUTE, 0)
    serve(counting, lake, site, 100)

    assert raised(kafka, counting) == []
    found = [entry for _, entry in entries(lake.table(counting))]
    assert sum(entry.dropped_by_watermark for entry in found) == 3
    assert sum(entry.good for entry in found) == log.sent - 1
    (sheet,) = feed_balances(lake)
    assert (sheet.read, sheet.dropped_by_watermark) == (log.sent, 3)
    assert sheet.quarantined == {"from_the_future": 1}
    assert ["dropped 3 events below the watermark" in each for each in sheet.faults] == [True]
