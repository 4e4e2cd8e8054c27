"""The records that a topic holds, and those that it no longer holds."""

from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.topic import Topic
from strandline.engine.kafka.slices import Part
from strandline.engine.kafka.topic_log import Log, check_positions, java_options
from tests.engine.records import HOUR, make, put, put_transactions, transactional

CLOSED_PORT = "127.0.0.1:1"
TEN_YEARS = 10 * 365 * 24 * HOUR


@pytest.mark.whole
@pytest.mark.kafka
def test_only_committed_records_are_counted(kafka: str, topic: Topic) -> None:
    """Markers and aborted records take offsets, but they are no records."""
    make(kafka, topic)
    put_transactions(kafka, topic, [5, -4, 3])
    log = Log(kafka, {}, topic)

    bounds = log.bounds()

    assert bounds[0] == (0, 5 + 4 + 3 + 3)
    assert log.count({0: 0, 1: 0}, {0: 15, 1: 0}) == 8
    assert log.count({0: 5, 1: 0}, {0: 11, 1: 0}) == 0
    log.close()


class SlowConsumer:
    """A consumer whose clock advances with every batch of records."""

    def __init__(self, consumer: Consumer) -> None:
        """Begin at 0."""
        self._consumer = consumer
        self.now = 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # the consumer's own methods
        return getattr(self._consumer, name)

    def consume(self, _count: int, timeout: float) -> list[Message]:
        """Return one record, and advance the clock."""
        found = self._consumer.consume(1, timeout=timeout)
        self.now += 50 * len(found)
        return found

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


@pytest.mark.kafka
def test_a_count_goes_on_for_as_long_as_records_come(
    kafka: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count used to be returned as complete after a minute."""
    make(kafka, topic)
    put(kafka, topic, [(0, at) for at in range(8)])
    log = Log(kafka, {}, topic)
    slow = SlowConsumer(log._consumer)
    monkeypatch.setattr(log, "_consumer", slow)
    monkeypatch.setattr("strandline.engine.kafka.topic_log.time", slow)

    assert log.count({0: 0}, {0: 8}) == 8

    log.close()


@pytest.mark.kafka
def test_a_count_that_comes_to_no_end_is_not_returned_as_complete(
    kafka: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records after the last one never come."""
    make(kafka, topic)
    put(kafka, topic, [(0, at) for at in range(8)])
    log = Log(kafka, {}, topic)
    monkeypatch.setattr("strandline.engine.kafka.topic_log.TIMEOUT", 0.5)

    with pytest.raises(TransientError, match="end of partition 0") as caught:
        log.count({0: 0}, {0: 100})

    assert caught.value.hint
    log.close()


@pytest.mark.whole
@pytest.mark.kafka
def test_an_open_transaction_is_beyond_the_end(kafka: str, topic: Topic) -> None:
    """It may still be aborted, and a reader that waited for its end would hang."""
    make(kafka, topic)
    put(kafka, topic, [(0, 0)])
    producer = transactional(kafka)
    producer.begin_transaction()
    producer.produce(topic.name, b"perhaps", partition=0)
    producer.flush(20)
    log = Log(kafka, {}, topic)

    assert log.bounds()[0] == (0, 1)
    producer.abort_transaction(20)
    log.close()


@pytest.mark.kafka
def test_a_topic_that_does_not_exist_is_reported_with_its_name(kafka: str, topic: Topic) -> None:
    """The query does not create it."""
    log = Log(kafka, {}, topic)

    for _ in range(2):
        with pytest.raises(DefinitionError) as caught:
            log.partitions()
        assert caught.value.fields["topic"] == topic.name

    log.close()


def test_a_broker_that_is_down_is_reported_with_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Trying again may help, so the error is transient."""
    monkeypatch.setattr("strandline.engine.kafka.topic_log.TIMEOUT", 0.5)
    log = Log(CLOSED_PORT, {}, Topic(name="any"))

    with pytest.raises(TransientError) as caught:
        log.bounds()

    assert caught.value.fields["address"] == CLOSED_PORT
    log.close()


@pytest.mark.parametrize(
    ("start", "bounds", "word"),
    [
        ({("t", 0): 10}, {("t", 0): (0, 3)}, "made anew"),
        ({("t", 0): 10}, {}, "made anew"),
        ({("t", 0): 3}, {("t", 0): (7, 20)}, "offsets 3 to 6 of partition 0 of t expired"),
    ],
)
def test_positions_that_kafka_no_longer_has_are_refused(
    start: dict[Part, int], bounds: dict[Part, tuple[int, int]], word: str
) -> None:
    """Reading on from another position would be a silent gap."""
    with pytest.raises(DataError, match=word):
        check_positions("bronze.x", start, bounds)


def test_positions_at_either_end_are_fine() -> None:
    """Nothing is read yet, or everything."""
    check_positions("bronze.x", {("t", 0): 3, ("t", 1): 9}, {("t", 0): (3, 9), ("t", 1): (3, 9)})


def test_options_are_translated_for_the_java_client() -> None:
    """One setting serves two clients with different names of options."""
    translated = java_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "reader",
            "sasl.password": 'quo"te\\d',
            "ssl.ca.location": "ca.pem",
        }
    )

    assert translated == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="reader" password="quo\\"te\\\\d";'
        ),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "ca.pem",
    }
