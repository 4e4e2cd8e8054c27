"""The radar sees a loss before it is one, and says what keeps a record and for how long."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from strandline.core.topic import Topic
from strandline.engine.flow import readers
from strandline.engine.flow.readers import (
    Danger,
    Level,
    TopicReader,
    table_dangers,
    topic_dangers,
    topic_readers,
)
from strandline.engine.kafka.slices import Positions, outlooks
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from tests.engine.accounting.test_feed_balance import SOUND
from tests.engine.accounting.test_feed_balance import lake as lake_with_feed
from tests.engine.flow.test_readers import checkpoint
from tests.engine.records import HOUR, expire, make, put, put_transactions
from tests.engine.written import BRONZE, SILVER, entry
from tests.support.ledgers import write_log
from tests.support.rows import NOON

WEEK = 7 * 24 * HOUR


def danger(  # noqa: PLR0913  # where, what, when
    kafka: str, topic: Topic, read: int, hours: float, *, stops: bool = True, partition: int = 0
) -> Danger:
    """Return what a reader's next record faces some hours after noon."""
    reader = TopicReader(name="bronze.x", positions={(topic.name, partition): read}, stops=stops)
    found = topic_dangers([reader], kafka, {}, NOON + timedelta(hours=hours))
    return next(each for each in found if each.source == f"{topic}/{partition}")


@pytest.mark.kafka
def test_time_runs_out_from_safe_to_lost(kafka: str, topic: Topic) -> None:
    make(kafka, topic, {"retention.ms": str(WEEK)})
    put(kafka, topic, [(0, n * HOUR) for n in range(4)])

    found = danger(kafka, topic, 1, 24)
    assert (found.level, found.unread, found.seconds) == (Level.SAFE, 3, (168 - 23) * 3600)
    assert found.next_at == "2026-11-20T13:00:00+00:00"
    assert found.goes_at == "2026-11-27T13:00:00+00:00"
    assert found.says == "kept for another 6 d 1 h at least"
    assert danger(kafka, topic, 1, 122).level is Level.SOON
    assert danger(kafka, topic, 1, 158).level is Level.URGENT
    over = danger(kafka, topic, 1, 170)
    assert (over.level, over.seconds) == (Level.URGENT, -3600)
    assert "it may go at any moment" in over.says

    expire(kafka, topic, 0, 3)
    gone = danger(kafka, topic, 1, 24)
    assert (gone.level, gone.lost, gone.unread) == (Level.LOST, (1, 3), 1)
    assert gone.says == "offsets 1 to 2 are gone and were not read"
    assert danger(kafka, topic, 1, 24, stops=False).level is Level.SOON, "it goes on by itself"


@pytest.mark.whole
@pytest.mark.kafka
def test_nothing_unread_is_no_danger_however_old_the_topic_is(kafka: str, topic: Topic) -> None:
    make(kafka, topic, {"retention.ms": str(HOUR)})
    put(kafka, topic, [(0, 0)])

    found = danger(kafka, topic, 1, 1000)
    assert (found.level, found.seconds, found.says) == (Level.SAFE, None, "nothing is unread")
    expire(kafka, topic, 0, 1)
    assert danger(kafka, topic, 1, 1000).level is Level.SAFE


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("config", "level", "says"),
    [
        ({"retention.ms": "-1"}, Level.SAFE, "kept whatever its age"),
        (
            {"retention.ms": "-1", "retention.bytes": "1000"},
            Level.UNKNOWN,
            "kept whatever its age; by size: not known",
        ),
        (
            {"retention.ms": str(WEEK), "retention.bytes": "1000"},
            Level.UNKNOWN,
            "kept for another 6 d 23 h at least; by size: not known",
        ),
        (
            {"retention.ms": str(HOUR), "cleanup.policy": "compact"},
            Level.UNKNOWN,
            "kept whatever its age; compacted: it may go once its key has a newer record",
        ),
        ({"retention.ms": str(4 * HOUR)}, Level.SAFE, "kept for another 3 h at least"),
        ({"retention.ms": str(2**62)}, Level.UNKNOWN, "the next record has no time"),
    ],
    ids=str,
)
def test_what_a_topic_keeps_decides(
    kafka: str, topic: Topic, config: dict[str, str], level: Level, says: str
) -> None:
    """A topic that keeps its records for four hours is no alarm all the time."""
    make(kafka, topic, config)
    put(kafka, topic, [(0, 0)], key="k")

    found = danger(kafka, topic, 0, 1)
    assert (found.level, found.says) == (level, says)


@pytest.mark.kafka
def test_a_partition_that_was_added_and_one_that_is_gone_are_seen(kafka: str, topic: Topic) -> None:
    make(kafka, topic)
    put(kafka, topic, [(1, 0)])

    found = outlooks(kafka, {}, {(topic.name, 0): 0, (topic.name, 7): 3, ("no-such-topic", 0): 4})
    assert {part: each.unread for part, each in found.items()} == {
        (topic.name, 0): 0,
        (topic.name, 1): 1,
        (topic.name, 7): 0,
        ("no-such-topic", 0): 0,
    }
    assert danger(kafka, topic, 3, 1, partition=7).says == "Kafka has no such partition"


@pytest.mark.whole
@pytest.mark.kafka
def test_the_next_record_is_found_behind_aborted_ones(kafka: str, topic: Topic) -> None:
    make(kafka, topic, {"retention.ms": str(WEEK)})
    put_transactions(kafka, topic, [-3, 2])

    assert danger(kafka, topic, 0, 1).next_at == "2026-11-20T12:00:00+00:00"
    put_transactions(kafka, topic, [-3])
    end = danger(kafka, topic, 7, 1)
    assert (end.unread, end.level) == (4, Level.UNKNOWN), "what is unread are markers alone"


def test_readers_of_topics_are_what_was_read_and_feeds_that_run(tmp_path: Path) -> None:
    """A feed whose rules are gone keeps its ledger, and must not be an alarm for ever."""
    lake = lake_with_feed(tmp_path, *SOUND, bronze=3)
    feed = "live.process_events"

    assert _positions(topic_readers(lake)) == {
        "bronze.alerts": {("alerts", 0): 3},
        feed: {("process-events", 0): 12},
    }
    _put_offsets(lake, feed, {"process-events": {"0": 14}})
    assert _positions(topic_readers(lake))[feed] == {("process-events", 0): 14}, "its checkpoint"
    lake.feeds_beat.put(json.dumps({"tables": {"live.other": {}}}))
    assert feed not in _positions(topic_readers(lake))


def test_a_topic_that_was_retired_is_read_by_none(lake: Lake) -> None:
    """A table whose last topic was retired before that was refused; its entry names no topic as read."""
    read = entry(BRONZE, stream="x@a1", offsets={"x/0": (0, 9)})
    left = entry(BRONZE, stream="", offsets={"x/0": (9, 9)}, retired={"x": "a1 ann: gone"})
    write_log(lake.table(BRONZE), [read])
    assert _positions(topic_readers(lake)) == {BRONZE.id: {("x", 0): 9}}

    write_log(lake.table(BRONZE), [left], first=1)

    assert topic_readers(lake) == []


def test_what_a_paused_stream_holds_back_is_shown_and_what_is_gone_is_lost(lake: Lake) -> None:
    write_log(lake.table(BRONZE), [entry(BRONZE, batch=n) for n in range(9)])
    write_log(lake.table(SILVER), [entry(SILVER)])
    checkpoint(lake, lake.checkpoint(SILVER), ended={3: {BRONZE: 4}})

    (found,) = table_dangers(lake)
    assert (found.reader, found.source, found.unread) == (SILVER.id, BRONZE.id, 5)
    assert (found.level, found.says) == (Level.SAFE, "its log is kept from version 4 on")
    assert found.next_at is not None

    commit_file(lake.table(BRONZE), 4).remove()
    (gone,) = table_dangers(lake)
    assert (gone.level, gone.lost) == (Level.LOST, (4, 5))


def test_what_was_seen_is_kept_whole_and_the_nearest_danger_is_the_worst(lake: Lake) -> None:
    safe = Danger(reader="a", source="t/0", unread=0, level=Level.SAFE, says="")
    later = replace(safe, level=Level.SOON, seconds=9.0)
    sooner = replace(later, seconds=2.0)
    lost = replace(safe, level=Level.LOST, lost=(1, 3))
    found = [later, safe, sooner, lost]

    assert readers.last(lake) is None
    readers.keep(lake, found, NOON)
    assert readers.last(lake) == ("2026-11-20T12:00:00+00:00", found)
    assert readers.worst(found) is lost
    assert readers.worst(found[:3]) is sooner
    assert readers.worst([]) is None
    lake.radar.put('{"at": "x", "dangers": [{}]}')
    assert readers.last(lake) is None, "of another version"


def _positions(found: list[TopicReader]) -> dict[str, Positions]:
    return {each.name: each.positions for each in found}


def _put_offsets(lake: Lake, feed: str, ends: dict[str, dict[str, int]]) -> None:
    folder = lake.root / "_checkpoints" / feed
    (folder / "offsets" / "2").put("\n".join(["v1", "{}", json.dumps(ends)]))
    (folder / "commits" / "2").put("")
