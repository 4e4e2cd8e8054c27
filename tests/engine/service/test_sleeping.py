"""A table that has nothing to read has no query, keeps its lease, and goes on where it was once there is something."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import user_actions
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import MicroBatch
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.held_records import Signed
from strandline.engine.flow.runner import Site
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import handed_over, is_written
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.retire import retire
from strandline.engine.service import backlog
from strandline.engine.service.sleeping import Sleepers
from strandline.engine.service.stream_host import Host
from tests.engine.records import drop, make, put
from tests.engine.service.test_failing import Served
from tests.support.events import TABLE as BRONZE
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, has_caught_up, proven, twin
from tests.support.morning import LATER, TABLES
from tests.support.rows import NOON

SOON = 0.3


@contextmanager
def served(lake: Lake, site: Site) -> Iterator[Served]:
    stop = threading.Event()
    stream = Served(Host(TABLES, MicroBatch(every=0.05), lake, site, stop, sleep=SOON), stop)
    try:
        yield stream
    finally:
        stop.set()
        error = stream.ended()
    assert error is None


def sleeps(stream: Served, lake: Lake, table: Table) -> bool:
    """Return whether a table sleeps: it has no query, and for others the stream writes it as before."""
    return stream.host.pulses[table.id].asleep and is_written(table, lake)


@pytest.mark.slow
def test_tables_that_sleep_have_no_query_and_have_the_same_rows_once_they_are_woken(
    spark: SparkSession, morning: Lake
) -> None:
    site = Site(spark=spark, clock=lambda: NOON)
    other = twin(morning, "never slept")
    with served(morning, site) as stream:
        stream.until(lambda: all(sleeps(stream, morning, each) for each in TABLES))
        assert [each.name for each in spark.streams.active if each.name in stream.host.pulses] == []
        received(morning, readings(LATER))
        stream.until(lambda: has_caught_up(morning, silver.TABLE))
        stream.until(lambda: has_caught_up(morning, gold.TABLE))
        stream.until(lambda: all(sleeps(stream, morning, each) for each in TABLES))

    assert proven(morning, TABLES)
    received(other, readings(LATER))
    derive(spark, other, *TABLES)
    assert answers_of(morning).closed == answers_of(other).closed


@pytest.mark.whole
@pytest.mark.slow
def test_what_another_process_does_to_a_table_that_sleeps_is_seen(
    spark: SparkSession, morning: Lake
) -> None:
    """A promotion changes rows and no number of rows to read; a retired table leaves the figures; neither has to wait."""
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(gold.TABLE, morning, site)
    with served(morning, site) as stream:
        stream.until(lambda: sleeps(stream, morning, gold.TABLE))
        with handed_over(gold.TABLE, morning, site.clock, "promote"):
            promoted = promote(gold.TABLE, morning, site)
        stream.until(lambda: not stream.host.pulses[gold.TABLE.id].asleep)
        stream.until(lambda: sleeps(stream, morning, gold.TABLE))
        received(morning, readings(LATER))
        stream.until(lambda: has_caught_up(morning, gold.TABLE))
        stream.until(lambda: sleeps(stream, morning, gold.TABLE))
        with handed_over(gold.TABLE, morning, site.clock, "retire") as writer:
            retire(gold.TABLE, morning, Signed(who="ann", at=NOON, why="enough"), writer)
        stream.until(lambda: gold.TABLE.id not in stream.host.pulses)
        assert stream.host.errors == {}

    assert promoted.promoted is not None
    assert fed(TABLES, morning) == [silver.TABLE]
    assert proven(morning, TABLES)


@pytest.mark.slow
@pytest.mark.kafka
def test_a_bronze_table_that_sleeps_reads_what_comes_and_notices_that_its_topic_is_gone(  # noqa: PLR0913, PLR0917  # a broker, a topic, a lake, Spark and two clocks
    spark: SparkSession,
    clock: Callable[[], datetime],
    kafka: str,
    topic: Topic,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One question says of all tables that sleep whether something came; each is asked for alone from time to time."""
    monkeypatch.setattr(backlog, "ALONE", 1.0)
    table = replace(user_actions.TABLE, reads=(topic,))
    make(kafka, topic)
    put(kafka, topic, [(0, n) for n in range(5)])
    site, stop = Site(spark=spark, clock=clock, address=kafka), threading.Event()
    host = Host((table,), MicroBatch(every=0.05), lake, site, stop, sleep=SOON)
    stream, pulse = Served(host, stop), host.pulses[table.id]
    try:
        stream.until(lambda: pulse.read == 5 and sleeps(stream, lake, table))
        put(kafka, topic, [(0, n) for n in range(5, 9)])
        stream.until(lambda: pulse.read == 9 and sleeps(stream, lake, table))
        drop(kafka, topic)
        stream.until(lambda: pulse.failing is not None)
    finally:
        stop.set()
        error = stream.ended()
    assert isinstance(error, DataError | DefinitionError)
    assert balance(table, lake).balanced


class Hand:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_a_table_is_to_rest_after_a_while_without_news_and_any_news_begin_it_anew(
    lake: Lake, hand: Hand
) -> None:
    sleepers = Sleepers(lake, after=10.0, clock=hand)
    table, name, versions = BRONZE, BRONZE.id, {BRONZE.id: 3}
    rest = sleepers.of(table, lambda _: None)

    def looked(lag: int | None = 0, *, works: bool = False) -> bool:
        sleepers.measured(table, lag, dict(versions), works=works)
        return rest.is_due()

    assert not looked()
    hand.now = 9.9
    assert not looked()
    hand.now = 10.0
    assert looked()
    assert not looked(1)
    hand.now = 20.0
    assert not looked()
    assert not looked(works=True)
    assert not looked(None)
    assert not looked()
    hand.now = 30.0
    assert looked()
    versions[name] = 4
    assert not looked()


def test_news_between_the_end_of_a_query_and_its_rest_are_not_slept_through(
    lake: Lake, hand: Hand
) -> None:
    """They come before the rest is taken; then it returns at once. What comes later ends it."""
    sleepers = Sleepers(lake, after=10.0, clock=hand)
    heard: list[bool] = []
    rest = sleepers.of(BRONZE, heard.append)

    def looked(lag: int) -> None:
        sleepers.measured(BRONZE, lag, {BRONZE.id: 3}, works=False)

    looked(0)
    hand.now = 10.0
    looked(0)
    assert rest.is_due()
    looked(5)
    rest.take()
    assert heard == []

    looked(0)
    hand.now = 20.0
    looked(0)
    sleeper = threading.Thread(target=rest.take)
    sleeper.start()
    while not sleepers.asleep:
        sleeper.join(0.01)
    looked(1)
    sleeper.join(30)
    assert not sleeper.is_alive()
    assert heard == [True, False]
    assert not sleepers.asleep


def test_with_zero_seconds_no_table_ever_sleeps(lake: Lake, hand: Hand) -> None:
    sleepers = Sleepers(lake, after=0.0, clock=hand)
    for hand.now in (0.0, 1e9):
        sleepers.measured(BRONZE, 0, {}, works=False)
    assert not sleepers.of(BRONZE, lambda _: None).is_due()
