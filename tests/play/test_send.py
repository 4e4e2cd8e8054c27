"""What Kafka holds afterwards is the plan's stream, or an error is raised."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from fleet.play.devices import Fleet
from fleet.play.domain import Playing, domain, readings
from fleet.play.plan import Plan
from strandline.core.errors import DefinitionError, TransientError
from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from strandline.engine.kafka import send_records as sending
from strandline.engine.kafka.broker import down, up
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import Interrupt
from tests.support.sending import send

UNTIL = datetime.fromisoformat("2026-11-20T00:00:00+00:00")
PLAN = Plan(since=UNTIL - timedelta(days=1), until=UNTIL, events=5_000, seed=7)
UNREACHABLE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    yield up(lake).address
    down(lake)


def received(address: str, topic: Topic) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "log_level": 0})
    parts = [TopicPartition(topic.name, number, 0) for number in range(topic.partitions)]
    ends = [consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts]
    consumer.assign(parts)
    found: list[Message] = []
    while len(found) < sum(ends):
        found += consumer.consume(10_000, timeout=1.0)
    consumer.close()
    return found


@pytest.mark.whole
@pytest.mark.kafka
def test_kafka_holds_every_event_with_its_key_and_time_and_copies_behind_their_originals(
    address: str,
) -> None:
    """The truth counts what was made; this is the step from there to what was received."""
    topic = Topic(name="whole", partitions=3)
    progress: list[int] = []

    sent = send(PLAN, address, {}, parts=readings(PLAN, topic), on_progress=progress.append)

    messages = received(address, topic)
    rows = [
        row
        for chunk in Fleet(PLAN).chunks()
        for row in zip(chunk.keys, chunk.values, chunk.arrived_at, strict=True)
    ]
    by_key = {key: [row for row in rows if row[0] == key] for key, _, _ in rows}
    assert sent.events == len(messages) == sent.truth.events == PLAN.events
    assert sent.is_whole
    assert progress == sorted(progress)
    assert progress[-1] == PLAN.events
    for key, expected in by_key.items():
        of_key = [message for message in messages if message.key() == key]
        assert len({message.partition() for message in of_key}) == 1
        assert [(m.key(), m.value(), m.timestamp()[1]) for m in of_key] == expected


@pytest.mark.kafka
def test_an_interrupt_ends_the_run_in_good_order(address: str) -> None:
    """After Ctrl-C the truth still fits what is in the topic."""
    topic = Topic(name="interrupted")
    plan = replace(PLAN, events=1_000_000)
    pressed: list[int] = []

    def press(count: int) -> None:
        if count > 2_000 and not pressed:
            pressed.append(count)
            signal.raise_signal(signal.SIGINT)

    sent = send(plan, address, {}, parts=readings(plan, topic), rate=20_000, on_progress=press)

    assert not sent.is_whole
    assert 2_000 < sent.events < 200_000
    assert sent.events == sent.truth.events == len(received(address, topic))


@pytest.mark.whole
@pytest.mark.kafka
def test_a_rate_is_kept(address: str) -> None:
    """A load test with a rate of its own must not wait for the slower side."""
    plan = replace(PLAN, events=1_000)

    sent = send(plan, address, {}, parts=readings(plan, Topic(name="paced")), rate=1_000)

    assert sent.events == 1_000
    assert 0.9 < sent.seconds < 20


@pytest.mark.kafka
def test_a_plan_without_events_sends_none(address: str) -> None:
    """Nothing asked for is nothing wrong."""
    plan = replace(PLAN, events=0)

    sent = send(plan, address, {}, parts=readings(plan, Topic(name="empty")))

    assert (sent.events, sent.is_whole) == (0, True)


@pytest.mark.whole
@pytest.mark.kafka
def test_a_broker_that_goes_away_is_reported_with_what_had_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise half a run would look like a whole one."""
    lake = Lake(tmp_path)
    broker = up(lake)
    plan = replace(PLAN, events=1_000_000)

    def stop(count: int) -> None:
        if count > 10_000:
            monkeypatch.setattr(sending, "PATIENCE", 1.0)  # while it lives a busy broker has time
            down(lake)  # which does nothing the second time

    try:
        with pytest.raises(TransientError) as caught:
            send(plan, broker.address, {}, rate=20_000, on_progress=stop)
    finally:
        down(lake)

    acknowledged = caught.value.fields["acknowledged"]
    assert isinstance(acknowledged, int)
    assert 10_000 < acknowledged < 1_000_000
    assert f"{acknowledged} of 1000000 events" in caught.value.message


@pytest.mark.whole
def test_an_address_without_a_broker_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The C client would fill the terminal with its own attempts."""
    monkeypatch.setattr(broker, "PATIENCE", 0.3)

    with pytest.raises(TransientError, match=UNREACHABLE):
        send(PLAN, UNREACHABLE, {})

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    """Before a broker is asked."""
    with pytest.raises(DefinitionError, match="rate must be above 0"):
        send(PLAN, UNREACHABLE, {}, rate=rate)


@pytest.mark.whole
def test_the_rate_changes_no_byte() -> None:
    """How fast events are sent is no property of the events: those of a topic are the same however many are made at a time."""
    plan = replace(PLAN, events=3_000)

    def sent(rate: float | None) -> dict[str, list[tuple[bytes, bytes, int]]]:
        rows: dict[str, list[tuple[bytes, bytes, int]]] = {}
        for each in Playing(plan, domain(plan), sending.at_once(rate)):
            columns = zip(each.keys, each.values, each.arrived_at, strict=True)
            rows.setdefault(each.topic, []).extend(columns)
        return rows

    assert sent(rate=2_000.0) == sent(rate=None)


def test_an_option_that_the_client_does_not_know_is_named() -> None:
    """A typo in the options is no reason to start a broker."""
    with pytest.raises(DefinitionError, match=r"sasl\.mechanismm"):
        send(PLAN, UNREACHABLE, {"sasl.mechanismm": "PLAIN"})


def test_only_the_first_interrupt_is_held_back() -> None:
    """A process that cannot be interrupted is worse than a truth that is off by an event."""
    of_the_suite = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert interrupt.asked
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, of_the_suite)
