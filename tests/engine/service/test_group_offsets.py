"""A consumer group for each bronze table shows to Kafka's own tools how far it has read, and decides nothing."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from pyspark.sql import SparkSession

from fleet.bronze import user_actions
from strandline.core.stateful import MicroBatch
from strandline.core.table import Ingested
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.broker import down, up
from strandline.engine.kafka.slices import ends_of, name_of
from strandline.engine.kafka.topic_log import STAY, offsets_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, entries, last_entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime.settings import settings
from strandline.engine.service import backlog
from strandline.engine.service.backlog import GroupOffsets, group_of
from strandline.engine.service.stream_host import Host
from tests.cli import inside
from tests.cli.typed import start, strandline
from tests.engine.records import admin, drop, make, put
from tests.engine.service.test_failing import Served
from tests.engine.written import entry
from tests.support.consumer_groups import described
from tests.support.ledgers import write_log

pytestmark = pytest.mark.kafka
PATTERN = "shown.{lake}.{table}"
Read = dict[tuple[str, int], int]


@pytest.fixture
def table(topic: Topic) -> Ingested:
    """Return a bronze table whose name and topic no other test has."""
    return replace(user_actions.TABLE, name=f"user_{token_hex(4)}", reads=(topic,))


class Shown:
    """The groups of a lake, and what is said of them."""

    def __init__(self, lake: Lake, address: str) -> None:
        """Follow nothing yet."""
        self.said: list[str] = []
        self.lake, self.address = lake, address
        self.groups = GroupOffsets(
            lake, PATTERN, address=lambda: self.address, options={}, says=self.said.append
        )

    def name(self, table: Ingested) -> str:
        """Return the group of a table."""
        return group_of(PATTERN, table.id, self.lake)

    def of(self, table: Ingested) -> Read:
        """Return the offsets of the group of a table."""
        return offsets_of(self.address, {}, self.name(table))

    def lag(self, table: Ingested) -> int:
        """Return the lag as a dashboard computes it: the ends of the partitions less the offsets of the group."""
        asks = Consumer({"bootstrap.servers": self.address, "group.id": "dashboard"})
        try:
            return sum(
                asks.get_watermark_offsets(TopicPartition(*part), timeout=20)[1] - at
                for part, at in self.of(table).items()
            )
        finally:
            asks.close()

    def run(self, table: Ingested) -> Read:
        """Run a table for a moment, and return where its group is then."""
        with self.groups.record(None, table, "available-now", self.lake):
            pass
        self.groups.drain(20)
        return self.of(table)


@pytest.fixture
def shown(lake: Lake, kafka: str) -> Shown:
    return Shown(lake, kafka)


def identity(address: str, topic: Topic) -> str:
    """Return a topic as a ledger entry names it."""
    client = admin(address)  # it answers only as long as it is referenced
    found = client.describe_topics(TopicCollection([topic.name]))[topic.name].result(20)
    return f"{topic.name}@{found.topic_id}"


def read_to(table: Ingested, stream: str, ends: Read, batch: int = 0, **fields: object) -> Entry:
    """Return an entry that has read so far."""
    offsets = {name_of(part): (0, end) for part, end in ends.items()}
    return entry(table, batch=batch, stream=stream, offsets=offsets, **fields)


@pytest.mark.slow
def test_the_lag_of_the_group_is_that_of_status_within_one_batch(
    spark: SparkSession, clock: Callable[[], datetime], table: Ingested, shown: Shown
) -> None:
    """At any moment the group is at a position that the books had, and once it rests at the last one."""
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(n % 2, n) for n in range(40)])
    stop = threading.Event()
    site = Site(spark=spark, clock=clock, address=shown.address, record=shown.groups.record)
    mode = MicroBatch(every=0.05, max_offsets=25)
    host = Host((table,), mode, shown.lake, site, stop)
    stream, pulse, seen = Served(host, stop), host.pulses[table.id], list[Read]()
    try:
        for burst in range(1, 4):
            sent = 40 * (burst + 1)
            put(shown.address, topic, [(n % 2, n) for n in range(40 * burst, sent)])
            stream.until(lambda: bool(seen.append(shown.of(table)) or pulse.read == sent))  # noqa: B023  # called at once
        stream.until(lambda: pulse.lag == 0 and shown.lag(table) == 0)
        put(shown.address, topic, [(0, n) for n in range(7)])
        stream.until(lambda: pulse.read == sent + 7 and shown.lag(table) == pulse.lag == 0)
    finally:
        stop.set()
        assert stream.ended() is None

    had = [dict(_ends(one).items()) for _, one in entries(shown.lake.table(table))]
    begun = dict.fromkeys(had[0], 0)
    assert len(had) > 5, "several batches, or nothing is shown of one"
    assert all(each in ({}, begun, *had) for each in seen)
    assert [*_order(seen, [{}, begun, *had])] == sorted(_order(seen, [{}, begun, *had]))
    assert shown.said == []


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.timeout(600)
def test_kafkas_own_tool_shows_the_lag_of_status_within_one_batch(
    tmp_path: Path, kafka: str
) -> None:
    """A stream reads what came at once, in batches of a bounded size; meanwhile both are asked, ``kafka-consumer-groups`` in between.

    The lag only falls then, so what the tool shows lies between both answers of ``status``, but for one batch.
    """
    name, most = user_actions.TABLE.id, 200
    (topic,) = user_actions.TABLE.topics
    with suppress(KafkaException):  # another test has it
        make(kafka, topic)
    lake, pattern = Lake(Place.of(tmp_path / "lake")), f"tool-{token_hex(4)}.{{table}}"
    group, env = group_of(pattern, name, lake), {"STRANDLINE_KAFKA": kafka}
    words = ("--every", "4s", "--max-offsets", most, "--lake", lake.root)
    log = tmp_path / "stream.log"

    def status() -> int | None:
        answer = strandline("status", "--json", "--lake", lake.root, env=env)
        if "there is no lake" in answer.err:  # the stream has not begun
            return None
        found = answer.succeeded().json
        tables: dict[str, Any] = (found["stream"] or {}).get("tables", {})  # type: ignore[index]
        return tables[name]["lag"] if name in tables else None

    def rests() -> bool:
        return status() == 0 and bool(described(kafka, group))

    put(kafka, topic, [(n % topic.partitions, n) for n in range(12)])
    stream = start(
        "stream", name, *words, log=log, env={**env, "STRANDLINE_CONSUMER_GROUP": pattern}
    )
    seen = list[tuple[int, int, int]]()
    try:
        _until(rests, stream, log)
        _put_at_once(kafka, topic, 25 * most)
        _until(lambda: (status() or 0) > 0, stream, log)
        while not seen or seen[-1] != (0, 0, 0):
            before, shown = status(), described(kafka, group)
            tool, after = sum(lag for _, _, lag in shown.values()), status()
            assert before is not None
            assert after is not None
            assert after - most <= tool <= before + most, (before, tool, after)
            assert all(lag == end - at for at, end, lag in shown.values()), shown
            seen.append((before, tool, after))
            assert stream.poll() is None, log.read_text()
    finally:
        stream.terminate()
        stream.wait(120)
    assert len({tool for _, tool, _ in seen}) > 2, f"the tool was asked while it worked: {seen}"
    (newest,) = [one for _, one in [last_entry(lake.table(user_actions.TABLE)) or (0, None)] if one]
    assert {part: at for part, (at, _, _) in described(kafka, group).items()} == _ends(newest)
    print(f"\nstatus, kafka-consumer-groups, status: {seen}")  # noqa: T201  # for who runs it with -s


def _put_at_once(address: str, topic: Topic, count: int) -> None:
    """Send records by one request, so that no look at the lag finds a part of them."""
    sends = {"linger.ms": 1_000, "batch.num.messages": count, "log_level": 0}
    producer = Producer({"bootstrap.servers": address, **sends})
    for _ in range(count):
        producer.produce(topic.name, b"{}", partition=0)
    assert producer.flush(20) == 0


def _until(seen: Callable[[], bool], program: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 240
    while not seen():
        assert program.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def _ends(one: Entry) -> Read:
    parts = {name.rpartition("/"): end for name, (_, end) in one.offsets.items()}
    return {(topic, int(number)): end for (topic, _, number), end in parts.items()}


def _order(seen: Sequence[Read], had: Sequence[Read]) -> Iterator[int]:
    return (had.index(each) for each in seen)


def test_the_group_follows_the_books_forward_and_back_and_the_answer_is_that_of_status(
    table: Ingested, shown: Shown
) -> None:
    """A restore sets it back; a partition that was never read is at its first record, as `status` counts it."""
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(n % 2, n) for n in range(20)])
    stream, path = identity(shown.address, topic), shown.lake.table(table)
    log = [read_to(table, stream, {(topic.name, 0): at}, at) for at in (4, 9)]
    write_log(path, log)

    assert shown.run(table) == {(topic.name, 0): 9, (topic.name, 1): 0}
    assert shown.lag(table) == sum(
        each.lag for each in ends_of(table, shown.lake, shown.address, {}).values()
    )
    commit_file(path, 1).remove_file()
    assert shown.run(table) == {(topic.name, 0): 4, (topic.name, 1): 0}
    assert shown.said == []


def test_a_topic_that_was_made_anew_keeps_no_offsets_of_the_former_one(
    table: Ingested, shown: Shown
) -> None:
    """They would hide the lag of the new topic, or make it negative."""
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(0, n) for n in range(9)])
    log = [read_to(table, identity(shown.address, topic), {(topic.name, 0): 9})]
    write_log(shown.lake.table(table), log)
    assert shown.run(table)[topic.name, 0] == 9
    drop(shown.address, topic)
    make(shown.address, topic)

    assert shown.run(table) == {}
    moved = {(topic.name, 0): 9, (topic.name, STAY): 2, (topic.name, STAY + 1): 0}
    put(shown.address, topic, [(0, n) for n in range(5)])
    again = read_to(table, identity(shown.address, topic), moved, 1)
    write_log(shown.lake.table(table), [again], first=1)
    assert shown.run(table) == {(topic.name, 0): 2, (topic.name, 1): 0}
    assert shown.lag(table) == 3


def test_a_topic_that_is_retired_leaves_the_group(table: Ingested, shown: Shown) -> None:
    """Its lag would grow for ever, though nothing is behind."""
    (topic,) = table.topics
    other = replace(topic, name=f"{topic.name}-v1")
    for each in (topic, other):
        make(shown.address, each)
        put(shown.address, each, [(0, n) for n in range(3)])
    both = [identity(shown.address, each) for each in (topic, other)]
    ends = {(each.name, number): 3 - 3 * number for each in (topic, other) for number in (0, 1)}
    write_log(shown.lake.table(table), [read_to(table, ",".join(both), ends)])
    assert shown.run(table) == ends

    write_log(shown.lake.table(table), [read_to(table, both[0], ends, 1)], first=1)

    assert shown.run(table) == {part: at for part, at in ends.items() if part[0] == topic.name}


def test_a_group_of_another_reader_is_not_touched(table: Ingested, shown: Shown) -> None:
    """One that has offsets of other topics, and one that has members."""
    (topic,) = table.topics
    other = replace(topic, name=f"{topic.name}-other")
    for each in (topic, other):
        make(shown.address, each)
        put(shown.address, each, [(0, 0)])
    write_log(
        shown.lake.table(table),
        [read_to(table, identity(shown.address, topic), {(topic.name, 0): 1})],
    )
    theirs = Consumer(
        {
            "bootstrap.servers": shown.address,
            "group.id": shown.name(table),
            "auto.offset.reset": "earliest",
        }
    )
    try:
        theirs.subscribe([other.name])
        deadline = time.monotonic() + 20
        while (message := theirs.poll(0.2)) is None or message.error():
            assert time.monotonic() < deadline
        theirs.commit(asynchronous=False)
        assert shown.run(table) == {(other.name, 0): 1}
        assert [other.name in each for each in shown.said] == [True]
        theirs.unsubscribe()
        theirs.subscribe([topic.name])
        anew = Shown(shown.lake, shown.address)
        theirs.poll(5)
        assert anew.run(table) == {(other.name, 0): 1}
    finally:
        theirs.close()


def test_members_of_the_group_are_named_as_the_reason(table: Ingested, shown: Shown) -> None:
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(0, 0)])
    write_log(
        shown.lake.table(table),
        [read_to(table, identity(shown.address, topic), {(topic.name, 0): 1})],
    )
    theirs = Consumer({"bootstrap.servers": shown.address, "group.id": shown.name(table)})
    try:
        theirs.subscribe([topic.name])
        deadline = time.monotonic() + 20
        while not theirs.assignment():
            theirs.poll(0.1)
            assert time.monotonic() < deadline
        assert shown.run(table) == {}
    finally:
        theirs.close()
    assert len(shown.said) == 1
    assert backlog.HAS_MEMBERS in shown.said[0]


def test_a_cluster_that_is_away_holds_up_nothing_and_is_caught_up_with(
    table: Ingested, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit wakes a thread and asks nothing itself, the reason is said once, and the offsets come with the next look."""
    monkeypatch.setattr(backlog, "AWAY", 0.2)
    asked, show = list[str](), GroupOffsets._show
    monkeypatch.setattr(
        GroupOffsets,
        "_show",
        lambda own, of: asked.append(threading.current_thread().name) or show(own, of),
    )
    (topic,) = table.topics
    make(shown.address, topic)
    before = _threads("groups")
    there, shown.address = shown.address, "127.0.0.1:1"
    write_log(
        shown.lake.table(table), [read_to(table, identity(there, topic), {(topic.name, 0): 0})]
    )
    with shown.groups.record(None, table, "micro-batch", shown.lake) as wrote:
        for _ in range(1_000):
            wrote(table, entry(table))
        deadline = time.monotonic() + 60
        while shown.groups._failures < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(shown.said) == 1
        shown.address = there
        while shown.of(table) != {(topic.name, 0): 0, (topic.name, 1): 0}:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert {*asked} == {"groups"}
    assert _threads("groups") - before == {shown.groups._thread}


def test_an_outage_that_is_worded_by_where_a_request_waits_is_said_once(shown: Shown) -> None:
    for wording in ("Timed out waiting for controller", "Failed while waiting for controller"):
        shown.groups._failed(KafkaException(KafkaError(KafkaError._TIMED_OUT, wording)))
    shown.groups._failed(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    shown.groups._failed(KafkaException(KafkaError(KafkaError._TRANSPORT, "connection refused")))
    outage, refusal = shown.said
    assert "Timed out" in outage
    assert "authorization" in refusal


def _threads(name: str) -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == name}


@pytest.mark.parametrize("is_away", [False, True])
def test_the_end_of_a_short_run_waits_for_no_pause(
    is_away: bool,  # noqa: FBT001  # a case
    table: Ingested,
    shown: Shown,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pauses of a lake on a store, and those after a failure, are longer than a program waits at its end."""
    monkeypatch.setattr(backlog, "AWAY", 600.0)
    monkeypatch.setattr(backlog, "EVERY", 600.0)
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(0, n) for n in range(9)])
    stream, path = identity(shown.address, topic), shown.lake.table(table)
    write_log(path, [read_to(table, stream, {(topic.name, 0): 4})])
    there = shown.address
    if is_away:
        shown.address = "127.0.0.1:1"
    with shown.groups.record(None, table, "available-now", shown.lake) as wrote:
        deadline = time.monotonic() + 60
        while not (shown.said if is_away else shown.of(table)) or shown.groups._works:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        write_log(path, [read_to(table, stream, {(topic.name, 0): 9}, 1)], first=1)
        wrote(table, entry(table))
    shown.address = there
    shown.groups.drain(60)
    assert shown.of(table)[topic.name, 0] == 9


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_restore_to_before_a_topic_was_added_takes_it_out_of_the_group(
    is_declared: bool,  # noqa: FBT001  # a case
    table: Ingested,
    shown: Shown,
) -> None:
    """The books know nothing of it; the declaration does, or what this process has shown."""
    (topic,) = table.topics
    added = replace(topic, name=f"{topic.name}-v2")
    for each in (topic, added):
        make(shown.address, each)
        put(shown.address, each, [(0, n) for n in range(3)])
    first, second = (identity(shown.address, each) for each in (topic, added))
    both, path = replace(table, reads=(topic, added)), shown.lake.table(table)
    ends = {(each.name, number): 3 - 3 * number for each in (topic, added) for number in (0, 1)}
    own = {part: at for part, at in ends.items() if part[0] == topic.name}
    log = [read_to(both, first, own), read_to(both, f"{first},{second}", ends, 1)]
    write_log(path, log)
    assert shown.run(both) == ends

    commit_file(path, 1).remove_file()
    anew = Shown(shown.lake, shown.address) if is_declared else shown

    assert anew.run(both if is_declared else table) == own
    assert anew.said == []


def test_the_same_offsets_are_written_again_before_kafka_forgets_them(
    table: Ingested, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group without members is forgotten after a week; one that was deleted meanwhile is back as well."""
    monkeypatch.setattr(backlog, "RENEWED", 0.0)
    (topic,) = table.topics
    make(shown.address, topic)
    put(shown.address, topic, [(0, 0)])
    write_log(
        shown.lake.table(table),
        [read_to(table, identity(shown.address, topic), {(topic.name, 0): 1})],
    )
    there = shown.run(table)
    client = admin(shown.address)
    client.delete_consumer_groups([shown.name(table)])[shown.name(table)].result(20)
    assert shown.of(table) == {}

    assert shown.run(table) == there == {(topic.name, 0): 1, (topic.name, 1): 0}


ASKS = """
import sys, time
from confluent_kafka import KafkaException
from strandline.engine.kafka.broker import Cluster, set_offsets
from strandline.engine.kafka.topic_log import offsets_of

address, topic, seconds = sys.argv[1:]
cluster, until, done = Cluster(address, {}), time.monotonic() + float(seconds), 0
while time.monotonic() < until:
    try:
        group = f"of-{done % 20}"
        set_offsets(cluster.admin, group, {(topic, 0): done}, [topic], offsets_of(address, {}, group))
        assert offsets_of(address, {}, group) == {(topic, 0): done}
        done += 1
    except KafkaException:
        pass
print(done)
"""


@pytest.mark.slow
@pytest.mark.whole
def test_a_broker_that_starts_again_while_its_groups_are_asked_for_ends_no_program(
    tmp_path: Path, topic: Topic
) -> None:
    """It refuses what it has not loaded yet; asked by an admin client, a program ended with SIGSEGV after some restarts."""
    lake = Lake(Place.of(tmp_path))
    address = up(lake).address
    try:
        make(address, topic)
        words = (sys.executable, "-c", ASKS, address, topic.name, "30")
        program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        while program.poll() is None:
            down(lake)
            up(lake, int(address.rpartition(":")[2]))
            time.sleep(1)  # some requests between two restarts
        said, _ = program.communicate()
    finally:
        down(lake)
    assert program.returncode == 0
    assert int(said) > 10


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_run_of_the_command_line_shows_its_group(tmp_path: Path, kafka: str) -> None:
    """By the setting alone, and without it there is no group."""
    (topic,) = user_actions.TABLE.topics
    with suppress(KafkaException):  # another test has it
        make(kafka, topic)
    put(kafka, topic, [(n % topic.partitions, n) for n in range(12)])
    lake = Lake(Place.of(tmp_path / "lake"))
    words, env = ("run", user_actions.TABLE.id, "--lake", lake.root), {"STRANDLINE_KAFKA": kafka}
    named = f"cli-{token_hex(4)}.{{table}}"

    inside.succeeded(*words, env=env)
    group = group_of(named, user_actions.TABLE.id, lake)
    assert offsets_of(kafka, {}, group) == {}
    inside.succeeded(*words, env={**env, "STRANDLINE_CONSUMER_GROUP": named})

    newest = last_entry(lake.table(user_actions.TABLE))
    assert newest is not None
    deadline = time.monotonic() + 20
    while offsets_of(kafka, {}, group) != _ends(newest[1]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert {part: at for part, (at, _, _) in described(kafka, group).items()} == _ends(newest[1])


@pytest.mark.parametrize("pattern", ["{table}", "s.{lake}.{table}", "{table}-of-{lake}"])
def test_a_pattern_names_the_table(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_CONSUMER_GROUP", pattern)
    assert settings().consumer_group == pattern


@pytest.mark.parametrize("pattern", ["strandline", "{lake}", "a {table}", "{table}.{other}", ""])
def test_a_pattern_without_the_table_is_refused(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables would share one group, and each would set the others back."""
    monkeypatch.setenv("STRANDLINE_CONSUMER_GROUP", pattern)
    with pytest.raises(Exception, match="STRANDLINE_CONSUMER_GROUP"):
        settings()
