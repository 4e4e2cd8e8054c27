"""For the pre-flight a topic that is to be made, one that was read and deleted, and one that was retired are three things.

What the cluster has is made up: the lake's ledger decides, and a real cluster is asked in tests/engine/flow/test_topic_to_make.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from unittest.mock import patch

import pytest
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.core.topic import RECEIVED
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry
from tests.cli.inside import strandline
from tests.cli.typed import Answer
from tests.support.by_hand import commit, create

TABLE = bronze.TABLE
A, B = (topic.name for topic in TABLE.topics)
READ = Entry(
    table=TABLE.id,
    mode="stream",
    stream=f"{A}@a1,{B}@b1",
    batch=3,
    source=f"{A}, {B}",
    offsets={f"{A}/0": (0, 7), f"{B}/0": (0, 4)},
)
RETIRED = replace(
    READ, mode="retire topic", stream=f"{A}@a1", batch=4, retired={B: "b1 ann: it is empty"}
)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Let the catalog have one table."""
    with patch.object(catalog, "tables", return_value=(TABLE,)):
        yield


def asked(lake: Lake, has: Mapping[str, int], *entries: Entry) -> Answer:
    """Return what is said where a cluster has these topics, and the table these entries."""
    if entries:
        create(lake.table(TABLE), RECEIVED)
    for each in entries:
        commit(lake.table(TABLE), [], each.encoded())
    env = {"STRANDLINE_KAFKA": "127.0.0.1:1", "STRANDLINE_LAKE": str(lake.root)}
    with patch.object(broker, "topics", return_value=has):
        return strandline("preflight", env=env)


@pytest.mark.whole
def test_a_topic_that_was_read_and_deleted_is_not_to_be_made(lake: Lake) -> None:
    """Made anew, its records would have the places of those that were read."""
    found = asked(lake, {A: 1}, READ)

    assert found.code == 2, found.printed
    assert "has lost its topic" in found.out
    assert f"{B} does not exist at 127.0.0.1:1 any more, and {TABLE.id} has read it" in found.out
    assert "what the former one had from offset 4 of partition 0 on is lost" in found.out
    assert "do not make it anew" in found.out
    assert f"strandline retire TABLE --topic {B} --leave-unread" in found.out
    assert "make " + B not in found.out


@pytest.mark.whole
def test_a_topic_that_was_retired_may_be_deleted(lake: Lake) -> None:
    found = asked(lake, {A: 1}, READ, RETIRED)

    assert found.code == 0, found.printed
    assert B not in found.out


def test_one_that_joins_is_to_be_made_beside_one_that_is_gone(lake: Lake) -> None:
    one = replace(READ, stream=f"{A}@a1", offsets={f"{A}/0": (0, 7)})

    found = asked(lake, {}, one)

    assert found.code == 2, found.printed
    assert f"{A} does not exist" in found.out
    assert f"make {B} first" in found.out


@pytest.mark.parametrize("entry", [READ, RETIRED])
def test_up_makes_no_topic_anew_that_a_table_has_read(lake: Lake, entry: Entry) -> None:
    """One that is retired may be deleted; made anew it would be read again when that is taken back."""
    create(lake.table(TABLE), RECEIVED)
    commit(lake.table(TABLE), [], entry.encoded())
    here = broker.Broker(address="127.0.0.1:1", pid=1, log=lake.log("kafka"))
    with (
        patch.object(broker, "up", return_value=here),
        patch.object(broker, "topics", return_value={A: 1}),
        patch.object(broker, "create_topic", return_value=True) as made,
    ):
        found = strandline("up", "--lake", lake.root)

    assert found.code == 0, found.printed
    assert not made.called
    assert f"not made anew: {B}, read by {TABLE.id} and deleted" in found.out
    assert "strandline move" in found.out


def test_a_ledger_that_cannot_be_read_is_said_and_ends_nothing(lake: Lake) -> None:
    asked(lake, {A: 1}, READ)
    commit_file(lake.table(TABLE), 1).put("{torn")

    found = asked(lake, {A: 1})

    assert found.code == 4, found.printed
    assert "cannot be read" in found.out


def test_a_cluster_that_refuses_the_client_ends_no_verdict(lake: Lake) -> None:
    """The verdicts about checkpoints need no cluster; the client's refusal is the real one."""
    create(lake.table(TABLE), RECEIVED)
    env = {
        "STRANDLINE_KAFKA": "127.0.0.1:1",
        "STRANDLINE_KAFKA_OPTIONS": '{"no.such.option": "1"}',
        "STRANDLINE_LAKE": str(lake.root),
    }

    found = strandline("preflight", env=env)

    assert found.code == 0, found.printed
    assert "safe" in found.out
    assert "it was not looked whether each topic is there: the Kafka client refuses" in found.err
