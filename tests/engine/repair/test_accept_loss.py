"""A reader stops with the exact offsets that are gone; a person accepts their loss; the books then balance and name it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from secrets import token_hex

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.core.table import Feed, Ingested
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance, feed_balances
from strandline.engine.accounting.held_records import Signed
from strandline.engine.accounting.table_books import Books
from strandline.engine.flow import feed_ledger, feed_query
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.topic_log import ExpiredError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.spark_checkpoint import kafka_ends
from strandline.engine.repair.close import accept, accept_of_feed
from tests.engine.records import drop, expire, make, put
from tests.support.feeds import feed, records, send, start
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

SIGNED = Signed(who="ann", at=NOON, why="away for too long")


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def table(kafka: str, topic: Topic) -> Ingested:
    """Return a bronze table that reads the test's own topic, which has ten records in each of its two partitions."""
    make(kafka, topic)
    put(kafka, topic, [(n % 2, n) for n in range(20)])
    return replace(bronze.TABLE, reads=(topic,))


def taken_in(table: Ingested, lake: Lake, site: Site) -> None:
    run(table, AvailableNow(), lake, site=site)


@pytest.mark.whole
def test_a_table_stops_with_the_range_that_is_lost_and_goes_on_once_that_is_accepted(
    table: Ingested, lake: Lake, site: Site, kafka: str, topic: Topic
) -> None:
    taken_in(table, lake, site)
    put(kafka, topic, [(n % 2, n) for n in range(20)])
    expire(kafka, topic, 0, 14)
    expire(kafka, topic, 1, 11)

    with pytest.raises(ExpiredError) as stopped:
        taken_in(table, lake, site)
    assert stopped.value.gone == {(topic.name, 0): (10, 14), (topic.name, 1): (10, 11)}
    assert f"offsets 10 to 13 of partition 0 of {topic}" in stopped.value.message
    assert "strandline accept-loss" in stopped.value.hint

    done = accept(table, lake, site, SIGNED)
    assert done.is_new
    assert done.lost == stopped.value.gone
    again = accept(table, lake, site, Signed(who="bob"))
    assert (again.is_new, again.entry) == (False, done.entry), "twice does it once"

    taken_in(table, lake, site)
    sheet = balance(table, lake)
    assert sheet.balanced, sheet.faults
    assert (sheet.read, sheet.rows) == (35, 35)
    assert sheet.lost == {f"{topic}/0": [[10, 14]], f"{topic}/1": [[10, 11]]}
    assert balance(table, lake, audited=True).lost == sheet.lost
    assert done.entry.accepted == "ann at 2026-11-20T12:00:00+00:00: away for too long"


def test_a_loss_that_is_not_there_is_refused(table: Ingested, lake: Lake, site: Site) -> None:
    with pytest.raises(DefinitionError, match="has read nothing yet"):
        accept(table, lake, site, SIGNED)

    taken_in(table, lake, site)
    before = latest_version(lake.table(table))
    with pytest.raises(DefinitionError, match="nothing is lost"):
        accept(table, lake, site, SIGNED)
    assert latest_version(lake.table(table)) == before


@pytest.mark.whole
def test_the_loss_of_a_topic_that_was_made_anew_cannot_be_accepted(
    table: Ingested, lake: Lake, site: Site, kafka: str, topic: Topic
) -> None:
    """Its offsets mean other records."""
    taken_in(table, lake, site)
    drop(kafka, topic)
    make(kafka, topic)

    with pytest.raises(DataError, match="was recreated"):
        accept(table, lake, site, SIGNED)


@pytest.mark.whole
def test_an_entry_that_claims_a_loss_beside_its_records_does_not_balance(
    table: Ingested, lake: Lake, site: Site, kafka: str, topic: Topic
) -> None:
    """A loss cannot hide records that were read: the offsets of an entry are its records and what is lost, no more."""
    taken_in(table, lake, site)
    put(kafka, topic, [(0, 0)])
    expire(kafka, topic, 0, 11)
    entry = accept(table, lake, site, SIGNED).entry
    books = Books(table, lake)

    hides = replace(entry, lost={f"{topic}/0": (9, 11)})
    assert list(books._offset_faults(2, entry)) == []  # the rule itself
    assert "spans 1 offsets" in "".join(books._offset_faults(2, hides))


@pytest.fixture
def alerts(kafka: str) -> Feed:
    """Return a feed over topics that no other test knows."""
    source, sink = (Topic(name=f"t-{token_hex(4)}", partitions=1) for _ in range(2))
    make(kafka, source)
    make(kafka, sink)
    return feed(source, sink)


def fed(alerts: Feed, lake: Lake, site: Site) -> None:
    """Let a feed read what there is, as its process does."""
    mode, kafka = AvailableNow(), site.kafka(alerts.id)
    books = FeedLedger(site.spark, alerts, mode, lake, address=kafka, options={})
    try:
        begins = books.begin(from_the_first=True)
        client = feed_query.client(kafka, {})
        query = feed_query.start(site.spark, alerts, mode, lake, kafka=client, begins=begins)
        assert query.awaitTermination(120)
        books.settle(at_once=True)
    finally:
        books.close()


@pytest.mark.prove(alone="a feed in a process of its own")
def test_a_feed_stops_with_the_range_that_is_lost_and_goes_on_once_that_is_accepted(
    alerts: Feed, lake: Lake, site: Site, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was killed after the entry was written, and before the checkpoint was moved."""
    (source,) = alerts.topics
    send(kafka, source, [start(name, fires=True) for name in "ab"])
    fed(alerts, lake, site)
    send(kafka, source, [start(name, fires=True) for name in "cdefg"])
    expire(kafka, source, 0, 5)
    with pytest.raises(ExpiredError, match=r"offsets 2 to 4 of partition 0"):
        fed(alerts, lake, site)

    with monkeypatch.context() as killed:
        killed.setattr(feed_ledger, "move_to", _killed)
        with pytest.raises(SystemExit):
            accept_of_feed(alerts.name, lake, site, SIGNED)
    assert kafka_ends(lake.checkpoint(alerts)) == (0, {source.name: {"0": 2}})
    assert not accept_of_feed(alerts.name, lake, site, SIGNED).is_new
    assert kafka_ends(lake.checkpoint(alerts)) == (0, {source.name: {"0": 5}})

    fed(alerts, lake, site)
    (sheet,) = feed_balances(lake)
    assert sheet.faults == []
    assert (sheet.read, sheet.rows, sheet.lost) == (4, 4, {f"{source}/0": [[2, 5]]})
    assert len(records(kafka, alerts.to)) == 4
    with pytest.raises(DefinitionError, match="nothing is lost"):
        accept_of_feed(alerts.name, lake, site, SIGNED)


def _killed(*_: object) -> None:
    raise SystemExit
