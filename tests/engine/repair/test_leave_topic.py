"""A topic is retired and a cluster is left: what was read stays, each record has one place, and the ledger has both sides."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.core.table import Ingested
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.held_records import Signed
from strandline.engine.accounting.routes import said
from strandline.engine.flow.readers import TopicReader, topic_dangers
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.broker import down, up
from strandline.engine.kafka.slices import ends_of
from strandline.engine.kafka.topic_log import STAY
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.repair.close import accept
from strandline.engine.repair.retire import Leaving, move, move_back, retire_topic, take_back_topic
from tests.cli.inside import succeeded
from tests.engine.records import NOON, drop, expire, make, put
from tests.support.modes import derive

pytestmark = pytest.mark.kafka

SIGNED = Signed(who="ann", at=NOON, why="the old site closes")


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a second cluster."""
    lake = Lake(tmp_path_factory.mktemp("other"))
    yield up(lake).address
    down(lake)


@pytest.fixture
def left(topic: Topic) -> Topic:
    """Return a second topic of the table."""
    return replace(topic, name=f"{topic.name}-old")


@pytest.fixture
def both(kafka: str, topic: Topic, left: Topic) -> Ingested:
    """Return a bronze table of two topics with ten records in each."""
    for each in (topic, left):
        make(kafka, each)
        put(kafka, each, [(n % 2, n) for n in range(10)])
    return replace(bronze.TABLE, reads=(topic, left))


@pytest.fixture
def one(kafka: str, other: str, topic: Topic) -> Ingested:
    """Return a bronze table of one topic, with ten records on a cluster and six on another."""
    for address, records in ((kafka, 10), (other, 6)):
        make(address, topic)
        put(address, topic, [(n % 2, n) for n in range(records)])
    return replace(bronze.TABLE, reads=(topic,))


def taken_in(table: Ingested, lake: Lake, site: Site) -> tuple[int, int]:
    """Read what is there, see that the books balance, and return the rows read and those of the table."""
    run(table, AvailableNow(), lake, site=site)
    sheet = balance(table, lake, audited=True)
    assert sheet.balanced, sheet.faults
    return sheet.read, sheet.rows


def test_a_topic_is_retired_when_all_of_it_was_read_and_taken_back_where_it_ended(  # noqa: PLR0913, PLR0917  # two topics of a cluster
    both: Ingested, topic: Topic, left: Topic, lake: Lake, site: Site, kafka: str
) -> None:
    leaving = Leaving(signed=SIGNED, address=kafka)
    taken_in(both, lake, site)
    put(kafka, left, [(0, 20)])
    with pytest.raises(DataError, match=f"offsets 5 to 5 of partition 0 of {left}") as refused:
        retire_topic(both, left.name, lake, site, leaving)
    assert "strandline run" in refused.value.hint
    taken_in(both, lake, site)

    retire_topic(both, left.name, lake, site, leaving)

    for address in (kafka,):
        put(address, topic, [(0, 30)])
        put(address, left, [(1, 30)])
    declared_no_more = replace(both, reads=(topic,))
    assert taken_in(both, lake, site) == (22, 22), "it is passed over while it is declared"
    assert taken_in(declared_no_more, lake, site) == (22, 22)
    (line,) = said(declared_no_more, lake)
    assert line.startswith(
        f"retired from {both.id}: {left}, read up to offset 6 of partition 0 and offset 5 of partition 1, by ann"
    )
    assert {part[0] for part in ends_of(both, lake, kafka, {})} == {topic.name}
    with pytest.raises(DefinitionError, match="is retired already"):
        retire_topic(both, left.name, lake, site, leaving)

    take_back_topic(both, left.name, lake, site, SIGNED)

    assert taken_in(both, lake, site) == (23, 23)
    assert said(both, lake) == []


@pytest.mark.whole
def test_a_retired_topic_may_be_deleted_and_the_loss_of_another_one_be_accepted(  # noqa: PLR0913, PLR0917  # as above
    both: Ingested, topic: Topic, left: Topic, lake: Lake, site: Site, kafka: str
) -> None:
    taken_in(both, lake, site)
    retire_topic(both, left.name, lake, site, Leaving(signed=SIGNED, address=kafka))
    drop(kafka, left)
    put(kafka, topic, [(0, n) for n in range(4)])
    expire(kafka, topic, 0, 7)

    done = accept(both, lake, site, SIGNED)

    assert done.lost == {(topic.name, 0): (5, 7)}
    assert taken_in(both, lake, site) == (22, 22)


def test_a_topic_that_only_left_the_declaration_is_named_and_stops_nothing(  # noqa: PLR0913, PLR0917  # as above
    both: Ingested, topic: Topic, left: Topic, lake: Lake, site: Site, kafka: str
) -> None:
    taken_in(both, lake, site)
    alone = replace(both, reads=(topic,))
    put(kafka, topic, [(0, n) for n in range(4)])
    expire(kafka, topic, 0, 7)

    accept(alone, lake, site, SIGNED)

    assert taken_in(alone, lake, site) == (22, 22)
    assert any(line.startswith(f"no longer fed: {left}") for line in said(alone, lake))
    put(kafka, left, [(0, 20)])
    with pytest.raises(DataError, match="has not read"):
        retire_topic(alone, left.name, lake, site, Leaving(signed=SIGNED, address=kafka))
    gone = retire_topic(
        alone, left.name, lake, site, Leaving(signed=SIGNED, address=kafka, leaves_unread=True)
    )
    assert gone.lost == {f"{left}/0": (5, 6)}
    assert balance(alone, lake, audited=True).lost[f"{left}/0"] == [[5, 6]]


@pytest.mark.whole
def test_on_another_cluster_offsets_begin_again_and_no_place_is_there_twice(  # noqa: PLR0913, PLR0917  # two clusters
    one: Ingested, topic: Topic, lake: Lake, site: Site, kafka: str, other: str
) -> None:
    there = replace(site, address=other)
    taken_in(one, lake, site)
    put(kafka, topic, [(1, 20)])
    with pytest.raises(DataError, match="the topic was recreated"):
        taken_in(one, lake, there)
    with pytest.raises(DataError, match="no cluster was asked"):
        move(one, lake, there, Leaving(signed=SIGNED, address=None))
    with pytest.raises(DataError, match=f"offsets 5 to 5 of partition 1 of {topic}"):
        move(one, lake, there, Leaving(signed=SIGNED, address=kafka))
    with pytest.raises(DefinitionError, match="reads already"):
        move(one, lake, site, Leaving(signed=SIGNED, address=kafka))
    assert taken_in(one, lake, site) == (11, 11)

    done = move(one, lake, there, Leaving(signed=SIGNED, address=kafka))

    assert done.moved == {f"{topic}/0": (5, 5), f"{topic}/1": (6, 6)}
    assert {name: end for name, (_, end) in done.offsets.items()} == {
        f"{topic}/0": 5,
        f"{topic}/1": 6,
        f"{topic}/{STAY}": 0,
        f"{topic}/{STAY + 1}": 0,
    }
    assert sum(each.lag for each in ends_of(one, lake, other, {}).values()) == 6
    assert taken_in(one, lake, there) == (17, 17)
    put(other, topic, [(0, 20)])
    assert taken_in(one, lake, there) == (18, 18)
    rows = site.spark.read.format("delta").load(str(lake.table(one))).collect()
    places = [(row["_topic"], row["_partition"], row["_offset"]) for row in rows]
    assert len({*places}) == 18
    assert {place for place in places if place[1] >= STAY} == {
        (topic.name, STAY + number, offset)
        for number, offset in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
    }
    positions = {(topic.name, STAY): 4, (topic.name, STAY + 1): 3}
    reader = TopicReader(name=one.id, positions=positions, stream=_stream(one, lake))
    dangers = topic_dangers([reader], other, {}, NOON)
    assert {(each.source, each.unread) for each in dangers} == {
        (f"{topic}/{STAY}", 0),
        (f"{topic}/{STAY + 1}", 0),
    }
    assert len(said(one, lake)) == 2
    above = replace(silver.TABLE, reads=(one,))
    derive(site.spark, lake, above)
    sheet = balance(above, lake)
    assert sheet.balanced, sheet.faults
    assert (sheet.read, sum(sheet.quarantined.values())) == (18, 18)


def test_a_move_is_taken_back_while_nothing_was_read_and_begins_at_a_moment(  # noqa: PLR0913, PLR0917  # as above
    one: Ingested, topic: Topic, lake: Lake, site: Site, kafka: str, other: str
) -> None:
    there = replace(site, address=other)
    taken_in(one, lake, site)
    move(one, lake, there, Leaving(signed=SIGNED, address=kafka))

    move_back(one, lake, site, SIGNED)

    put(kafka, topic, [(0, 20)])
    assert taken_in(one, lake, site) == (11, 11)
    with pytest.raises(DefinitionError, match="was not moved, or has read"):
        move_back(one, lake, site, SIGNED)
    since = NOON + timedelta(milliseconds=4)
    move(one, lake, there, Leaving(signed=SIGNED, address=kafka), since)
    assert taken_in(one, lake, there) == (13, 13), "of the six those that arrived from then on"


@pytest.mark.whole
def test_a_cluster_that_is_gone_is_left_by_decision(
    one: Ingested, topic: Topic, lake: Lake, site: Site, other: str
) -> None:
    taken_in(one, lake, site)

    with patch.object(catalog, "tables", return_value=(one,)):
        words = ("move", one.id, "--because", "it burnt down", "--leave-unread")
        typed = succeeded(
            *words, env={"STRANDLINE_KAFKA": other, "STRANDLINE_LAKE": str(lake.root)}
        )

    assert f"{topic}/0 ends at offset 5" in typed.out
    assert f"{topic}/{STAY} begins at offset 0" in typed.out
    done = last_entry(lake.table(one))
    assert done is not None
    assert done[1].moved == {f"{topic}/0": (5, -1), f"{topic}/1": (5, -1)}
    assert taken_in(one, lake, replace(site, address=other)) == (16, 16)
    assert any("its end was not asked" in line for line in said(one, lake))


def _stream(table: Ingested, lake: Lake) -> str:
    newest = last_entry(lake.table(table))
    assert newest is not None
    return newest[1].stream
