"""A backlog is read in slices that end at the same time in all partitions of all topics."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from strandline.core.topic import Topic
from strandline.engine.kafka.slices import Backlog, Part
from tests.engine.records import HOUR, Record, make, put

TEN_YEARS = 10 * 365 * 24 * HOUR


def sliced(address: str, limit: int, *topics: Topic) -> Iterator[dict[Part, tuple[int, int]]]:
    """Yield the range of each partition that each slice reads, until all is read."""
    log = Backlog(address, {}, topics)
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
    """If it were read ahead, its newest event would advance the watermark past the rest of the others."""
    day = [(0, number * 10 * HOUR // 1000) for number in range(1000)]
    last_hour = [(1, 9 * HOUR + number * HOUR // 1000) for number in range(1000)]
    make(kafka, topic)
    put(kafka, topic, [*day, *last_hour])

    slices = list(sliced(kafka, 200, topic))

    assert_none_runs_ahead(slices, times(day, 0), times(last_hour, 1))
    assert all(set(ranges) == {(topic.name, 0)} for ranges in slices[:4])
    assert all(sum(b - a for a, b in ranges.values()) <= 200 for ranges in slices)


@pytest.mark.kafka
@pytest.mark.parametrize("crowded", [0, 1])
def test_many_records_of_one_time_in_one_partition_let_no_other_run_ahead(
    crowded: int, kafka: str, topic: Topic
) -> None:
    """A batch of a producer has one time where the broker assigns it, and may be larger than any limit."""
    quiet = [(1 - crowded, number * HOUR) for number in range(50)]
    crowd = [(crowded, max(number - 30, 5) * HOUR) for number in range(75)]
    make(kafka, topic)
    put(kafka, topic, [*quiet, *crowd])

    slices = list(sliced(kafka, 10, topic))

    together = [*quiet, *crowd]
    assert_none_runs_ahead(slices, times(together, 0), times(together, 1))
    assert all(sum(b - a for a, b in ranges.values()) <= 10 for ranges in slices)


def assert_none_runs_ahead(
    slices: list[dict[Part, tuple[int, int]]], *partitions: list[int]
) -> None:
    """Assert that no record that was read is newer than one that another partition still holds."""
    newest = -1
    waiting = list(partitions)
    for ranges in slices:
        for (_, partition), (start, stop) in ranges.items():
            newest = max(newest, partitions[partition][stop - 1])
            waiting[partition] = waiting[partition][stop - start :]
        assert newest <= min((left[0] for left in waiting if left), default=TEN_YEARS)


@pytest.mark.kafka
def test_without_a_limit_there_is_one_slice(kafka: str, topic: Topic) -> None:
    """The broker's time index is not queried."""
    make(kafka, topic)
    put(kafka, topic, [(0, 0), (0, 1), (1, 0)])

    assert list(sliced(kafka, 10**9, topic)) == [{(topic.name, 0): (0, 2), (topic.name, 1): (0, 1)}]


@pytest.mark.whole
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
    """Whatever times the records have, the whole backlog is read."""
    make(kafka, topic)
    put(kafka, topic, records)

    read = [offset for ranges in sliced(kafka, 10, topic) for offset in ranges.items()]

    assert sum(stop - start for _, (start, stop) in read) == 100
    assert all(stop > start for _, (start, stop) in read)


@pytest.mark.whole
@pytest.mark.kafka
def test_two_topics_of_a_table_are_read_together(kafka: str, topic: Topic) -> None:
    """If an older shape of the same event were read a day later, all of it would be late."""
    older = replace(topic, name=f"{topic.name}-v1")
    for each in (topic, older):
        make(kafka, each)
        put(kafka, each, [(number % 2, number * HOUR // 4) for number in range(48)])

    slices = list(sliced(kafka, 8, topic, older))

    assert len(slices) > 8
    for ranges in slices:
        read = {
            name: max(b for (t, _), (_, b) in ranges.items() if t == name) for name, _ in ranges
        }
        assert set(read) == {topic.name, older.name}
        assert max(read.values()) - min(read.values()) <= 1


@pytest.mark.kafka
def test_a_record_whose_clock_is_ahead_holds_up_nothing_behind_it(kafka: str, topic: Topic) -> None:
    """The broker answers every later moment with it, so its partition waited until the others were read."""
    halves = [(0, number * HOUR) for number in range(100)]
    others = [(1, number * HOUR) for number in range(100)]
    make(kafka, topic)
    put(kafka, topic, [*halves[:10], (0, TEN_YEARS), *halves[10:], *others, (1, TEN_YEARS)])

    slices = list(sliced(kafka, 20, topic))

    assert_none_runs_ahead(
        slices[:-1],
        [number if number < 10 else number - 1 for number in range(101)],
        list(range(101)),
    )
