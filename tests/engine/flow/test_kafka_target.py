"""A real Kafka gets each change exactly once for readers of committed records, with the position in the same transaction."""

import json
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias
from uuid import uuid4

import pytest

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.flow.publications import KafkaTopic, publications, refusals
from strandline.engine.flow.publisher import Publisher
from strandline.engine.flow.targets import ToKafka
from strandline.engine.kafka import broker, topic_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import FencedError
from tests.cli.inside import succeeded
from tests.support import publishing
from tests.support.published import Published, committed
from tests.support.publishing import order, sent, sent_anew, write

pytestmark = [pytest.mark.kafka]

Starts: TypeAlias = Callable[[], Publisher]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker."""
    lake = tmp_path_factory.mktemp("broker") / "lake"
    succeeded("up", "--lake", lake)
    yield succeeded("status", "--lake", lake, "--json").json["kafka"]
    succeeded("down", "--lake", lake)


@pytest.fixture
def topic(address: str) -> str:
    """Make a topic."""
    name = f"orders-{uuid4().hex[:8]}"
    broker.create_topic(address, name, 2, {})
    return name


@pytest.fixture
def publisher(lake: Lake, address: str, topic: str) -> Starts:
    """Return a function that makes a publisher, as each start of a process does."""
    lake.open_for_writing()
    return lambda: publishing.publisher(
        lake, KafkaTopic(topic), lambda _: ToKafka(topic, f"out-{topic}", lambda: address, {})
    )


def _ids(records: list[Published]) -> list[str]:
    return [each.headers["id"] for each in records]


def test_a_change_is_a_record_with_its_identity_and_version(
    lake: Lake, publisher: Starts, address: str, topic: str
) -> None:
    write(lake, [order(0, note="\u0000\u2028'\"")])
    sent(publisher())
    write(lake, [order(1, note="")], "order_id IN ('o0', 'o1')")
    sent(publisher())

    records = {(each.headers["op"], each.key): each for each in committed(address, topic)}
    first = records["upsert", b'{"order_id":"o0"}']
    assert first.value is not None
    assert json.loads(first.value) == {
        "order_id": "o0",
        "amount": "1.00",
        "ordered_at": "2026-11-02T12:00:00Z",
        "note": "\u0000\u2028'\"",
    }
    assert first.headers == {
        "id": first.headers["id"],
        "op": "upsert",
        "table": "silver.orders",
        "generation": "1",
        "version": "0",
    }
    gone = records["delete", b'{"order_id":"o0"}']
    assert (gone.value, gone.headers["version"]) == (None, "1")
    assert len(records) == 3


def test_an_end_before_and_behind_the_commit_sends_nothing_twice(
    lake: Lake,
    publisher: Starts,
    address: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka has the position, and the lake has an older one or none."""
    write(lake, [order(0)])

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    for where in ("strandline.engine.flow.targets.ToKafka.keep", None):
        killed = publisher()
        with killed.lease(), monkeypatch.context() as patched:
            if where:
                patched.setattr(where, stopped)
            else:
                patched.setattr(killed, "_store", stopped)
                killed.books.place = killed._whole(1)
            with pytest.raises(KeyboardInterrupt):
                killed.step()
    write(lake, [order(1)])

    assert sent(publisher()) == 2
    assert len(_ids(committed(address, topic))) == len({*_ids(committed(address, topic))}) == 2


def test_one_that_was_replaced_sends_nothing(
    lake: Lake, publisher: Starts, address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, on another machine: its lease is another's by now."""
    write(lake, [order(0)])
    former, later = publisher(), publisher()
    with former.lease():
        former.step()
        monkeypatch.setattr(
            "strandline.engine.flow.publisher.file_of",
            lambda lake, name, kind=".json": lake.publications / f"{name}.other{kind}",
        )
        write(lake, [order(1)])
        assert sent(later) == 2
        write(lake, [order(2)])
        with pytest.raises(FencedError, match="another process publishes"):
            former.step()

    assert len(committed(address, topic)) == 2


def test_a_megabyte_leaves_and_what_the_topic_does_not_take_is_refused(
    lake: Lake, publisher: Starts, address: str, topic: str
) -> None:
    """The limit of this topic is the default of Kafka, 1,048,588 bytes."""
    write(lake, [order(0, note="x" * 1_047_000), order(1, note="x" * 1_049_000), order(2, note="")])

    sent(publisher())

    assert len(committed(address, topic)) == 2
    ((key, said),) = refusals(lake, "out").items()
    assert key == '{"order_id":"o1"}'
    assert "the topic takes 1,048,588" in said["why"]
    (seen,) = publications(lake)
    assert (seen["read"], seen["accepted"], seen["refused"]) == (3, 2, 1)


def test_a_topic_without_positions_goes_on_from_the_lake(
    lake: Lake, publisher: Starts, address: str, topic: str
) -> None:
    """Kafka drops the positions of a group seven days after its last; here they are deleted."""
    write(lake, [order(0)])
    sent(publisher())
    client = topic_log.admin(address, {})
    client.delete_consumer_groups([f"out-{topic}"])[f"out-{topic}"].result(30)
    write(lake, [order(1)])

    assert sent(publisher()) == 2
    assert len(committed(address, topic)) == 2


def test_a_topic_that_is_made_anew_is_not_filled_with_half_of_the_rows(
    lake: Lake, publisher: Starts, address: str, topic: str
) -> None:
    """Kafka drops the position with the topic; that of the lake would leave all former rows out."""
    write(lake, [order(0)])
    sent(publisher())
    client = topic_log.admin(address, {})
    client.delete_topics([topic])[topic].result(30)
    while topic in broker.topics(address, {}):
        time.sleep(0.1)
    broker.create_topic(address, topic, 2, {})
    write(lake, [order(1)])

    with pytest.raises(DataError, match="made anew"):
        sent(publisher())
    sent_anew(publisher())
    assert len(committed(address, topic)) == 2


def test_a_lake_that_went_back_is_refused(
    lake: Lake, publisher: Starts, address: str, topic: str
) -> None:
    """As when it is restored: the topic has changes of a version that the table never had."""
    write(lake, [order(0)])
    write(lake, [order(1)])
    sent(publisher())
    lake.table(publishing.ORDERS).remove()
    lake.publications.remove()
    write(lake, [order(0)])

    with pytest.raises(DataError, match="another history"):
        sent(publisher())
    sent_anew(publisher())
    (last,) = [each for each in committed(address, topic) if each.headers["generation"] != "1"]
    assert last.key == b'{"order_id":"o0"}'


def test_a_topic_that_is_not_there_and_a_broker_that_is_away(lake: Lake, address: str) -> None:
    lake.open_for_writing()
    write(lake, [order(0)])
    for where, kind, said in (
        (address, DefinitionError, "topic nowhere does not exist"),
        ("127.0.0.1:1", TransientError, "no Kafka broker answers"),
    ):
        target = publishing.publisher(
            lake,
            KafkaTopic("nowhere"),
            lambda _, at=where: ToKafka("nowhere", "out", lambda: at, {}),  # type: ignore[misc]
        )
        with pytest.raises(kind, match=said):
            sent(target)
