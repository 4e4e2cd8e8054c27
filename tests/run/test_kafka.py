"""A backlog is read in slices that end at one moment in all partitions."""

from collections.abc import Iterator

import pytest

from jobs.core.errors import DataError, DefinitionError, TransientError
from jobs.core.table import Topic
from jobs.run.kafka import Log, check_positions, java_options
from tests.run.records import HOUR, Record, make, put, put_transactions, transactional

NOBODY = "127.0.0.1:1"
TEN_YEARS = 10 * 365 * 24 * HOUR


def sliced(address: str, topic: Topic, limit: int) -> Iterator[dict[int, tuple[int, int]]]:
    """Yield the range that each slice reads of each partition, until there is nothing more."""
    log = Log(address, {}, topic)
    bounds = log.bounds()
    position = {p: first for p, (first, _) in bounds.items()}
    end = {p: last for p, (_, last) in bounds.items()}
    while stops := log.slice(position, end, limit):
        yield {p: (position[p], stop) for p, stop in stops.items()}
        position |= stops
    assert position == end
    log.close()


def times(records: list[Record], partition: int) -> list[int]:
    return [at for p, at in records if p == partition]


@pytest.mark.kafka
def test_a_partition_whose_records_are_all_new_waits_for_the_others(
    kafka: str, topic: Topic
) -> None:
    """Read ahead, its newest event would move the watermark past everything the others still hold."""
    day = [(0, number * 10 * HOUR // 1000) for number in range(1000)]
    last_hour = [(1, 9 * HOUR + number * HOUR // 1000) for number in range(1000)]
    make(kafka, topic)
    put(kafka, topic, [*day, *last_hour])

    slices = list(sliced(kafka, topic, 200))

    newest = {0: -1, 1: -1}
    waiting = {0: times(day, 0), 1: times(last_hour, 1)}
    for ranges in slices:
        for partition, (start, stop) in ranges.items():
            newest[partition] = (day, last_hour)[partition][stop - 1][1]
            waiting[partition] = waiting[partition][stop - start :]
        oldest_waiting = min((left[0] for left in waiting.values() if left), default=TEN_YEARS)
        assert max(newest.values()) <= oldest_waiting
    assert all(set(ranges) == {0} for ranges in slices[:4])
    assert all(sum(b - a for a, b in ranges.values()) <= 200 for ranges in slices)


@pytest.mark.kafka
def test_without_a_limit_there_is_one_slice(kafka: str, topic: Topic) -> None:
    """Nothing is asked of the broker's time index."""
    make(kafka, topic)
    put(kafka, topic, [(0, 0), (0, 1), (1, 0)])

    assert list(sliced(kafka, topic, 10**9)) == [{0: (0, 2), 1: (0, 1)}]


@pytest.mark.kafka
@pytest.mark.parametrize(
    "records",
    [
        [(number % 2, 0) for number in range(100)],
        [(0, number // 50) for number in range(100)],
        [(0, 100 - number) for number in range(100)],
        [(number % 2, TEN_YEARS + number) for number in range(100)],
        [(number % 2, 0 if number % 3 else TEN_YEARS) for number in range(100)],
    ],
    ids=[
        "all at one time",
        "more at one time than the limit",
        "backwards",
        "from the future",
        "mixed",
    ],
)
def test_a_slice_is_never_empty_and_all_is_read_once(
    records: list[Record], kafka: str, topic: Topic
) -> None:
    """Whatever times the records carry, a backlog comes to its end."""
    make(kafka, topic)
    put(kafka, topic, records)

    read = [offset for ranges in sliced(kafka, topic, 10) for offset in ranges.items()]

    assert sum(stop - start for _, (start, stop) in read) == 100
    assert all(stop > start for _, (start, stop) in read)


@pytest.mark.kafka
def test_what_is_counted_are_committed_records(kafka: str, topic: Topic) -> None:
    """Markers take an offset, aborted records too; neither is a record."""
    make(kafka, topic)
    put_transactions(kafka, topic, [5, -4, 3])
    log = Log(kafka, {}, topic)

    bounds = log.bounds()

    assert bounds[0] == (0, 5 + 4 + 3 + 3)
    assert log.count({0: 0, 1: 0}, {0: 15, 1: 0}) == 8
    assert log.count({0: 5, 1: 0}, {0: 11, 1: 0}) == 0
    log.close()


@pytest.mark.kafka
def test_an_open_transaction_is_beyond_the_end(kafka: str, topic: Topic) -> None:
    """It may still be aborted; and a reader that waited for its end would hang."""
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
def test_a_topic_that_does_not_exist_is_told_with_its_name(kafka: str, topic: Topic) -> None:
    """And is not made by asking for it."""
    log = Log(kafka, {}, topic)

    for _ in range(2):
        with pytest.raises(DefinitionError) as caught:
            log.partitions()
        assert caught.value.fields["topic"] == topic.name

    log.close()


def test_a_broker_that_is_down_is_told_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again may help, so the error is of that kind."""
    monkeypatch.setattr("jobs.run.kafka.TIMEOUT", 0.5)
    log = Log(NOBODY, {}, Topic(name="any"))

    with pytest.raises(TransientError) as caught:
        log.bounds()

    assert caught.value.fields["address"] == NOBODY
    log.close()


@pytest.mark.parametrize(
    ("start", "bounds", "word"),
    [
        ({0: 10}, {0: (0, 3)}, "made anew"),
        ({0: 10}, {}, "made anew"),
        ({0: 3}, {0: (7, 20)}, "offsets 3 to 6 of partition 0 expired"),
    ],
)
def test_positions_that_kafka_no_longer_has_are_refused(
    start: dict[int, int], bounds: dict[int, tuple[int, int]], word: str
) -> None:
    """Going on from somewhere else would be a silent gap."""
    with pytest.raises(DataError, match=word):
        check_positions("bronze.x", start, bounds)


def test_positions_at_either_end_are_fine() -> None:
    """Nothing was read yet, or everything."""
    check_positions("bronze.x", {0: 3, 1: 9}, {0: (3, 9), 1: (3, 9)})


def test_options_are_translated_for_the_java_client() -> None:
    """One setting speaks to two clients that name things differently."""
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
