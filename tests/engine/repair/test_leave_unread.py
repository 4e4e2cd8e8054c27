"""A topic or a cluster is left that cannot be asked any more: a person decides it, and the ledger says that its end was not asked.

The ledger is a real one, of a lake without Spark; only the clusters are made up, because a test of a real one that is gone
waits for it (the real ones: test_leave_topic.py).
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import cast
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.topic import RECEIVED, Topic
from strandline.engine.accounting.held_records import Signed
from strandline.engine.accounting.routes import said
from strandline.engine.flow.ingest import refuse_retired
from strandline.engine.flow.runner import Site
from strandline.engine.kafka import slices
from strandline.engine.kafka.topic_log import Log
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.place import Place
from strandline.engine.repair import retire as retiring
from strandline.engine.repair.retire import Leaving, move, move_back, retire_topic
from tests.support.by_hand import commit, create
from tests.support.rows import NOON

TABLE = bronze.TABLE
A, B = (topic.name for topic in TABLE.topics)
SIGNED = Signed(who="ann", at=NOON, why="it is gone")
HERE, THERE = "here:9092", "there:9092"
READ = Entry(
    table=TABLE.id,
    mode="stream",
    stream=f"{A}@a1,{B}@b1",
    batch=3,
    source=f"{A}, {B}",
    offsets={f"{A}/0": (0, 7), f"{B}/0": (0, 4)},
)


@dataclass
class Clusters:
    """What each cluster has: by address the topics' ids and ends; none at an address that does not answer."""

    topics: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)

    def log(self, address: str, options: object, topic: Topic, asks: object = None) -> "Reader":
        """Return a topic of a cluster, as a backlog asks for it."""
        del options, asks
        return Reader(self, address, topic)


@dataclass
class Reader:
    """A topic of a made-up cluster; its refusals are those of the real one."""

    clusters: Clusters
    address: str
    topic: Topic

    def close(self) -> None:
        """Disconnect."""

    def partitions(self) -> list[int]:
        """Return the one partition."""
        self._found()
        return [0]

    def identity(self) -> str:
        """Return the topic's id."""
        return self._found()[0]

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return the bounds of the one partition."""
        return {0: (0, self._found()[1])}

    def offsets_at(self, moment: int, partitions: list[int]) -> dict[int, int | None]:
        """Return where to begin."""
        del moment
        return dict.fromkeys(partitions, 1)

    def _found(self) -> tuple[str, int]:
        real = Log(self.address, {}, self.topic)
        try:
            if self.address not in self.clusters.topics:
                raise TransientError(f"no Kafka broker answers at {self.address}", hint="")
            there = self.clusters.topics[self.address]
            if self.topic.name not in there:
                raise real._missing()
            return there[self.topic.name]
        finally:
            real.close()


class Commit:
    """A commit without Spark."""

    def __init__(self, spark: object, path: Place) -> None:
        """Note where."""
        del spark
        self._path = path

    def commit(self, metadata: str) -> None:
        """Commit an entry without rows."""
        commit(self._path, [], metadata)


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    """Return clusters of which the first has both topics as they were read, with nothing unread."""
    found = Clusters({HERE: {A: ("a1", 7), B: ("b1", 4)}})
    with (
        patch.object(slices, "Log", found.log),
        patch.object(retiring, "lease", lambda *_: nullcontext()),
        patch.object(delta_commit, "Commit", Commit),
    ):
        yield found


@pytest.fixture
def read(lake: Lake) -> Lake:
    """Return a lake whose bronze table has read two topics."""
    create(lake.table(TABLE), RECEIVED)
    commit(lake.table(TABLE), [], READ.encoded())
    return lake


@pytest.fixture
def site() -> Site:
    """Return a site without Spark."""
    return Site(spark=cast(SparkSession, None), clock=lambda: NOON, address=HERE)


def deleted(clusters: Clusters) -> None:
    """Delete the second topic."""
    del clusters.topics[HERE][B]


def made_anew(clusters: Clusters) -> None:
    """Make the second topic anew, with more records than were read of the former one."""
    clusters.topics[HERE][B] = ("b2", 9)


def gone(clusters: Clusters) -> None:
    """Lose the cluster."""
    del clusters.topics[HERE]


@pytest.mark.parametrize("lose", [deleted, made_anew, gone])
def test_a_topic_that_cannot_be_asked_is_retired_by_decision(
    clusters: Clusters, read: Lake, site: Site, lose: Callable[[Clusters], None]
) -> None:
    lose(clusters)
    with pytest.raises(LakeError) as refused:
        retire_topic(TABLE, B, read, site, Leaving(signed=SIGNED, address=HERE))
    assert "--leave-unread" in refused.value.hint
    assert "strandline up" not in refused.value.hint, "who makes it anew has lost its places"

    done = retire_topic(
        TABLE, B, read, site, Leaving(signed=SIGNED, address=HERE, leaves_unread=True)
    )

    assert (done.stream, done.lost) == (f"{A}@a1", {})
    (line,) = said(TABLE, read)
    assert line == (
        f"retired from {TABLE.id}: {B}, read up to offset 4 of partition 0, by ann at 2026-11-20T12:00:00+00:00: it is gone; "
        "its end was not asked"
    )


@pytest.mark.whole
def test_what_can_be_asked_is_asked_and_named_as_left(
    clusters: Clusters, read: Lake, site: Site
) -> None:
    clusters.topics[HERE][B] = ("b1", 6)

    done = retire_topic(
        TABLE, B, read, site, Leaving(signed=SIGNED, address=HERE, leaves_unread=True)
    )

    assert done.lost == {f"{B}/0": (4, 6)}
    assert "not asked" not in done.retired[B]


def test_the_last_topic_of_a_table_is_not_retired(
    clusters: Clusters, read: Lake, site: Site
) -> None:
    """Without one the table fails at each start."""
    del clusters
    leaving = Leaving(signed=SIGNED, address=HERE)
    retire_topic(TABLE, B, read, site, leaving)
    alone = replace(TABLE, reads=(TABLE.topics[0],))

    for table in (TABLE, alone):
        with pytest.raises(DefinitionError, match=f"{A} is the last topic that") as refused:
            retire_topic(table, A, read, site, replace(leaving, leaves_unread=True))
        assert "`reads`" in refused.value.hint

    newest = last_entry(read.table(TABLE))
    assert newest is not None
    assert newest[1].stream == f"{A}@a1"


def test_of_two_topics_the_one_that_was_made_anew_is_moved(
    clusters: Clusters, read: Lake, site: Site
) -> None:
    """The other is the topic that is read already, and was a reason to move neither."""
    made_anew(clusters)
    clusters.topics[HERE]["joins"] = ("j1", 3)
    joined = replace(TABLE, reads=(*TABLE.topics, Topic(name="joins")))

    done = move(joined, read, site, Leaving(signed=SIGNED, address=None, leaves_unread=True))

    assert done.moved == {f"{B}/0": (4, -1)}
    assert {name: end for name, (_, end) in done.offsets.items()} == {
        f"{A}/0": 7,
        f"{B}/0": 4,
        f"{B}/1000000": 0,
    }
    assert done.stream == f"{A}@a1,{B}@b2"
    back = move_back(TABLE, read, site, SIGNED)
    assert (back.stream, back.offsets[f"{A}/0"]) == (READ.stream, (7, 7))
    assert {name.partition("/")[0] for name in back.moved} == {B}


def test_topics_that_are_read_already_are_not_moved_beside_one_that_joins(
    clusters: Clusters, read: Lake, site: Site
) -> None:
    clusters.topics[HERE]["joins"] = ("j1", 3)
    joined = replace(TABLE, reads=(*TABLE.topics, Topic(name="joins")))

    for table in (TABLE, joined):
        with pytest.raises(DefinitionError, match=f"{A} and {B} at {HERE} .* reads already"):
            move(table, read, site, Leaving(signed=SIGNED, address=HERE))


def test_both_topics_move_to_another_cluster_and_begin_at_a_moment(
    clusters: Clusters, read: Lake, site: Site
) -> None:
    clusters.topics[THERE] = {A: ("a9", 5), B: ("b9", 5)}

    done = move(
        TABLE, read, replace(site, address=THERE), Leaving(signed=SIGNED, address=HERE), NOON
    )

    assert done.moved == {f"{A}/0": (7, 7), f"{B}/0": (4, 4)}
    assert {done.offsets[f"{name}/1000000"] for name in (A, B)} == {(1, 1)}


def test_a_table_without_a_topic_names_a_command_that_there_is() -> None:
    """It named one without the option that the verb demands."""
    with pytest.raises(DefinitionError) as refused:
        refuse_retired(TABLE, [])

    (typed,) = [each for each in refused.value.hint.split("`") if each.startswith("strandline")]
    assert typed == f'strandline retire {TABLE.id} --topic NAME --undo --because "…"'
