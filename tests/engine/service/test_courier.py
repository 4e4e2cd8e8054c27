"""Each alert of the topic is in one accepted notice, whatever is away, and a rule has few notices however it storms."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from strandline.alerting.alert_rule import Severity
from strandline.alerting.courier import Books, Courier, DeliveryHost, Desk
from strandline.alerting.notice import File, KafkaTopic, Payload, Sink, Webhook
from strandline.core.errors import TransientError
from strandline.core.topic import Topic
from strandline.engine.kafka.topic_log import Log, TopicWriter
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.service.condition import receivers
from tests.engine.records import drop, expire, make
from tests.support.logged import Logged
from tests.support.notices import Hands, Receiver, alert, send
from tests.support.proofs import Times
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

CLOSED = "127.0.0.1:1"


def tended(courier: Courier, until: Callable[[], bool]) -> None:
    """Let a courier work until something is so."""
    for _ in range(600):
        if until():
            return
        courier.tend()
    raise AssertionError(courier.books)


def is_balanced(books: Books) -> bool:
    counted = books.copies + books.below + books.from_history + books.passed_over
    return books.read == books.delivered + books.waiting + counted


@pytest.mark.whole
@pytest.mark.prove
def test_a_storm_of_alerts_is_a_notice_at_once_and_one_more_a_minute(
    desk: Desk, kafka: str, receiver: Receiver, hands: Hands, times: Times
) -> None:
    """The counts add up; a quiet rule beside it has its own notice at once."""
    courier = Courier(Webhook(receiver.address), desk)
    many = times(20_000, 100_000)
    storm = (alert(n % 60, "storm", alert_id=f"s{n}") for n in range(many))
    send(kafka, desk.topic.name, [*storm, alert(1, "quiet")])

    with courier.lease():
        tended(courier, lambda: courier.books.read == many + 1)
        before = receiver.counts
        hands.now += timedelta(minutes=1)
        tended(courier, lambda: not courier.books.waiting)

    by_rule = {
        rule: [n["count"] for n in receiver.accepted if n["rule"] == rule]
        for rule in ("storm", "quiet")
    }
    assert len(before) == 2
    assert by_rule["quiet"] == [1]
    assert len(by_rule["storm"]) == 2
    assert sum(by_rule["storm"]) == many
    assert is_balanced(courier.books)


def test_an_alert_that_was_raised_again_is_in_no_second_notice(
    desk: Desk, kafka: str, receiver: Receiver, hands: Hands
) -> None:
    """Nor is it after a restart; and one of a lower severity is in none."""
    desk = replace(desk, least=Severity.HIGH)
    send(kafka, desk.topic.name, [alert(1), alert(2), alert(1)])
    send(kafka, desk.topic.name, [alert(3, rule_severity="medium")], partition=1)
    first = Courier(Webhook(receiver.address), desk)
    with first.lease():
        tended(first, lambda: first.books.read == 4 and not first.books.waiting)
        first.end()
    send(kafka, desk.topic.name, [alert(2), alert(4)])
    hands.now += timedelta(minutes=2)
    second = Courier(Webhook(receiver.address), desk)
    with second.lease():
        second.drain()

    samples = [each["alert_id"] for notice in receiver.accepted for each in notice["alerts"]]
    assert sorted(samples) == ["r-1", "r-2", "r-4"]
    assert sum(receiver.counts) == 3
    assert (second.books.copies, second.books.below) == (2, 1)
    assert is_balanced(second.books)


@pytest.mark.whole
def test_a_receiver_that_fails_gets_the_same_notice_again_and_loses_nothing(
    desk: Desk, kafka: str, receiver: Receiver, log: Logged
) -> None:
    """Meanwhile the reading goes on, so that what comes is one notice and no flood; others get theirs."""
    answers = chain((500, 404), repeat(200))
    receiver.status = lambda: next(answers)
    courier = Courier(Webhook(receiver.address), desk)
    send(kafka, desk.topic.name, [alert(1)])
    with courier.lease():
        tended(courier, lambda: len(receiver.got) == 1)
        assert courier.books.away
        send(kafka, desk.topic.name, [alert(n) for n in range(2, 52)])
        tended(courier, lambda: courier.books.read == 51)
        tended(courier, lambda: len(receiver.accepted) == 1)

    assert receiver.got == [receiver.accepted[0]] * 3
    assert set(receiver.keys) == {receiver.accepted[0]["delivery_id"]}
    assert receiver.counts == [1]
    assert courier.books.waiting == 50
    assert courier.books.away is None
    assert "404" in str(log.all_of("waits"))
    assert log.all_of("goes on")


@dataclass(frozen=True)
class Killer:
    """A receiver that takes a notice, and whose sender is killed before it learns that."""

    sink: Sink
    got: list[Payload]

    @property
    def name(self) -> str:
        """Return the name of the real receiver."""
        return self.sink.name

    @property
    def shown(self) -> str:
        """Return the name of the real receiver."""
        return self.sink.shown

    def send(self, notice: Payload) -> None:
        """Take a notice."""
        self.got.append(notice)
        raise SystemExit


@pytest.mark.whole
def test_a_notice_that_is_sent_again_has_nothing_that_came_since(
    desk: Desk, kafka: str, receiver: Receiver
) -> None:
    """With more alerts in it, a receiver that knows its id would never count those."""
    sink = Webhook(receiver.address)
    killed = Courier(Killer(sink, []), desk)
    send(kafka, desk.topic.name, [alert(1), alert(2)])
    with killed.lease(), pytest.raises(SystemExit):
        tended(killed, lambda: False)
    send(kafka, desk.topic.name, [alert(3), alert(4)])
    courier = Courier(sink, desk)
    with courier.lease():
        courier.drain()

    first, second = receiver.accepted
    assert [json.loads(json.dumps(each)) for each in killed.sink.got] == [first]  # type: ignore[attr-defined]  # the above
    assert first["count"] + second["count"] == 4
    assert first["delivery_id"] != second["delivery_id"]


def test_what_is_no_alert_is_passed_over_with_a_line_in_the_log(
    desk: Desk, kafka: str, receiver: Receiver, log: Logged
) -> None:
    send(kafka, desk.topic.name, [b"", b"{}", alert(1), b"[" * 5_000])
    courier = Courier(Webhook(receiver.address), desk)

    with courier.lease():
        courier.drain()

    assert receiver.counts == [1]
    assert courier.books.passed_over == 3
    (line,) = log.all_of("passed over")
    assert line["first"] == f"{desk.topic.name}/0/0"
    assert is_balanced(courier.books)


@pytest.mark.whole
def test_an_alert_on_an_old_event_wakes_no_person(
    kafka: str, desk: Desk, receiver: Receiver
) -> None:
    """It is counted as what it is; gold.alerts has it."""
    old = alert(1, event_at=(NOON - timedelta(days=9)).isoformat())
    send(kafka, desk.topic.name, [alert(0)])
    send(kafka, desk.topic.name, [old], raised_at=NOON)
    courier = Courier(Webhook(receiver.address), desk)

    with courier.lease():
        courier.drain()

    assert (receiver.counts, courier.books.from_history) == ([1], 1)
    assert is_balanced(courier.books)


def test_receivers_are_independent(
    desk: Desk, kafka: str, receiver: Receiver, tmp_path: Path
) -> None:
    """An address at which nothing listens holds up neither a file, nor a topic, nor another address."""
    sink = Topic(name=f"{desk.topic.name}-notices", partitions=1)
    make(kafka, sink)
    file = Place.of(tmp_path / "below" / "notices.jsonl")
    sinks: list[Sink] = [
        Webhook(f"http://{CLOSED}/x"),
        Webhook(receiver.address),
        File(file),
        KafkaTopic(sink.name, TopicWriter(lambda: kafka, {}, sink.name)),
    ]
    send(kafka, desk.topic.name, [alert(n) for n in range(7)])
    stop = threading.Event()
    host = DeliveryHost([Courier(each, desk) for each in sinks], stop)

    def look(host: DeliveryHost) -> None:
        if [books.delivered for books in host.books] == [0, 7, 7, 7]:
            stop.set()

    host.serve(look)

    away, *others = receivers_of(desk.lake)
    (line,) = (file.text() or "").splitlines()
    reader = Log(kafka, {}, sink)
    (record,) = reader.records({0: 0}, {0: 1})
    reader.close()
    notice = json.loads(record.value() or b"")
    assert (away["delivered"], away["waiting"], away["receiver"]) == (0, 7, f"http://{CLOSED}")
    assert "did not accept" in away["away"]
    assert [each["waiting"] for each in others] == [0, 0, 0]
    assert receiver.counts == [json.loads(line)["count"]] == [notice["count"]] == [7]
    assert (record.key() or b"").decode() == notice["delivery_id"]


def test_a_second_process_for_one_receiver_is_refused(desk: Desk, receiver: Receiver) -> None:
    """Two would deliver each alert twice."""
    courier, other = (Courier(Webhook(receiver.address), desk) for _ in range(2))

    with (
        courier.lease(),
        pytest.raises(TransientError, match="already, by process"),
        other.lease(),
    ):
        pass


@pytest.mark.whole
def test_a_new_receiver_begins_with_what_comes_from_then_on(
    desk: Desk, kafka: str, receiver: Receiver
) -> None:
    """Unless it is to have what the topic holds."""
    courier = Courier(Webhook(receiver.address), replace(desk, from_the_first=False))
    send(kafka, desk.topic.name, [alert(1)])
    with courier.lease():
        courier.drain()
        send(kafka, desk.topic.name, [alert(2), alert(3)])
        courier.drain()

    assert receiver.counts == [2]


def test_what_expired_is_an_error_in_the_log_and_the_rest_is_delivered(
    desk: Desk, kafka: str, receiver: Receiver, log: Logged
) -> None:
    """And a topic that was made anew is read from its beginning."""
    courier = Courier(Webhook(receiver.address), desk)
    send(kafka, desk.topic.name, [alert(n) for n in range(6)])
    with courier.lease():
        courier.drain()
        send(kafka, desk.topic.name, [alert(n) for n in range(6, 10)])
        expire(kafka, desk.topic, 0, 8)
        courier.drain()
        drop(kafka, desk.topic)
        make(kafka, desk.topic)
        send(kafka, desk.topic.name, [alert(10)])
        courier.drain()

    assert receiver.counts == [6, 2, 1]
    assert courier.books.expired == 2
    assert "2 offsets expired" in str(log.all_of("expired"))
    assert log.all_of("topic made anew")


def test_a_broker_that_is_away_does_not_stop_what_waits_to_be_sent(
    desk: Desk, kafka: str, receiver: Receiver, log: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the reading goes on when it is back, here at another address."""
    monkeypatch.setattr("strandline.engine.kafka.topic_log.TIMEOUT", 1.0)
    where = [kafka]
    receiver.status = lambda: 503
    courier = Courier(Webhook(receiver.address), replace(desk, locate=lambda: where[0]))
    send(kafka, desk.topic.name, [alert(1)])
    with courier.lease():
        tended(courier, lambda: bool(receiver.got))
        courier.end()
    receiver.status = lambda: 200
    where[0] = CLOSED
    with courier.lease():
        courier._inbox.close()
        tended(courier, lambda: receiver.counts == [1])
        assert "no Kafka broker answers" in str(courier.books.away)
        where[0] = kafka
        send(kafka, desk.topic.name, [alert(2, "other")])
        tended(courier, lambda: receiver.counts == [1, 1])

    assert courier.books.away is None
    assert log.all_of("goes on")


def receivers_of(lake: Lake) -> list[dict[str, Any]]:
    """Return what is stored about receivers, one that got nothing first."""
    return sorted(receivers(lake), key=lambda each: bool(each["delivered"]))
