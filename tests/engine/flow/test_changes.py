"""What leaves of a table is what its commits changed, whatever wrote them: each change once, in order, with an id of its own."""

import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

import pytest

from strandline.core.errors import DataError, TransientError
from strandline.engine.flow.publications import Change, publications, refusals
from strandline.engine.flow.publisher import ROWS, Publisher
from strandline.engine.flow.targets import ToFunction, as_json
from strandline.engine.lake.duckdb_table import Range
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.open_table import opened
from tests.support import lakes, publishing
from tests.support.publishing import EVENTS, HOURS, NOON, ORDERS, order, sent, sent_anew, write

pytestmark = pytest.mark.core

Starts: TypeAlias = Callable[[], Publisher]
"""Makes a publisher, as each start of a process does."""


@dataclass
class Receiver:
    """A function that keeps what it got, and may refuse, or fail."""

    got: list[Change] = field(default_factory=list)
    refuses: Callable[[Change], str | None] = lambda _: None
    fails: bool = False

    def __call__(self, changes: tuple[Change, ...]) -> Mapping[str, str]:
        """Take changes."""
        if self.fails:
            raise ConnectionError("away")
        self.got += [each for each in changes if not self.refuses(each)]
        return {each.id: why for each in changes if (why := self.refuses(each))}

    @property
    def rows(self) -> dict[object, Mapping[str, object]]:
        """Return what is left of what it got."""
        left: dict[object, Mapping[str, object]] = {}
        for each in self.got:
            key = tuple(each.key.values())
            if each.row is None:
                left.pop(key, None)
            else:
                left[key] = each.row
        return left


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def publisher(lake: Lake, receiver: Receiver) -> Starts:
    """Return a function that makes a publisher, as each start of a process does."""
    lake.open_for_writing()
    return lambda: publishing.publisher(lake, receiver, lambda _: ToFunction(receiver))


def test_a_new_target_gets_all_rows_then_what_commits_change(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    write(lake, [order(number) for number in range(3)])
    write(lake, [order(number) for number in range(3, 5)])

    first = sent(publisher())
    write(lake, [order(5)])
    second = sent(publisher())

    assert (first, second, len(receiver.got)) == (5, 6, 6)
    last = receiver.got[-1]
    assert last.key == {"order_id": "o5"}
    assert last.row == {
        "order_id": "o5",
        "amount": Decimal("1.00"),
        "ordered_at": NOON + timedelta(minutes=5),
    }
    assert last.version == 2
    assert [each.version for each in receiver.got[:5]] == [1] * 5
    assert len({each.id for each in receiver.got}) == 6


def test_a_repair_sends_what_it_changed_and_what_it_removed_and_nothing_else(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    """As a backfill does: all rows of a range are replaced, and most of them are what they were."""
    write(lake, [order(number) for number in range(100)])
    sent(publisher())
    receiver.got.clear()

    same = [order(number) for number in range(98)]
    write(lake, [*same[1:], order(0, "9.00"), order(200)], "order_id != ''")
    sent(publisher())

    changes = [(each.key["order_id"], each.row and each.row["amount"]) for each in receiver.got]
    assert changes == [
        ("o98", None),
        ("o99", None),
        ("o0", Decimal("9.00")),
        ("o200", Decimal("1.00")),
    ]


def test_compaction_sends_nothing_and_files_that_it_removed_are_not_needed(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    for number in range(3):
        write(lake, [order(number)])
    sent(publisher())
    table = opened(lake.table(ORDERS))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)

    again = publisher()
    assert sent(again) == 3
    assert len(receiver.got) == 3
    assert [each["lag"] for each in publications(lake)] == [0]


def test_an_undo_that_brings_compacted_files_back_sends_their_rows(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    """Their lines in the log still say that they change no row, and the commit does."""
    for number in range(2):
        write(lake, [order(number)])
    opened(lake.table(ORDERS)).optimize.compact()
    path = lake.table(ORDERS)
    compacted = (commit_file(path, 2).text() or "").splitlines()
    add = next(line for line in compacted if line.startswith('{"add"'))
    assert '"dataChange":false' in add
    write(lake, [order(0, "9.00"), order(1, "9.00")], "order_id != ''")
    sent(publisher())
    other = json.loads((commit_file(path, 3).text() or "").splitlines()[-1])["add"]["path"]
    gone = {"path": other, "deletionTimestamp": 0, "dataChange": True}
    lakes.write(commit_file(path, 4), [json.dumps({"remove": gone}) + "\n", add + "\n"])

    sent(publisher())

    one = Decimal("1.00")
    assert {key: row["amount"] for key, row in receiver.rows.items()} == {
        ("o0",): one,
        ("o1",): one,
    }


def test_keys_of_a_map_are_texts() -> None:
    """JSON has no other ones."""
    assert as_json({"m": {Decimal("1.50"): 1, b"a": [{Decimal(2): None}]}}) == (
        b'{"m":{"1.50":1,"YQ==":[{"2":null}]}}'
    )


def test_masks_that_become_more_while_it_lives_are_kept(lake: Lake, receiver: Receiver) -> None:
    """The lake says which columns are masked before the first row that needs it."""
    lake.open_for_writing()
    write(lake, [order(0)])
    masked: set[str] = set()
    living = publishing.publisher(
        lake, receiver, lambda _: ToFunction(receiver), masks=lambda: frozenset(masked)
    )
    with living.lease():
        while living.step():
            pass
        masked.add("amount")
        write(lake, [order(1)])
        while living.step():
            pass

    first, second = receiver.got
    assert (first.row or {})["amount"] == Decimal("1.00")
    assert (second.row or {})["amount"] != Decimal("1.00")


def test_a_target_that_is_away_gets_all_later_and_the_same_ids(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    write(lake, [order(number) for number in range(3)])
    receiver.fails = True
    away = publisher()

    with (
        away.lease(),
        pytest.raises(TransientError, match="the function failed: ConnectionError: away"),
    ):
        away.step()

    (seen,) = publications(lake)
    assert ("away" in str(seen["away"]), seen["read"], seen["lag"]) == (True, 0, 1)
    receiver.fails = False
    assert sent(publisher()) == 3
    (seen,) = publications(lake)
    assert (seen["away"], seen["accepted"], seen["lag"]) == (None, 3, 0)


def test_a_kill_behind_the_answer_sends_the_batch_again_with_the_same_ids(
    lake: Lake,
    publisher: Starts,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function keeps no position, so this is at least once; the ids make it once, and the counts are those of the ids."""
    write(lake, [order(number) for number in range(2 * ROWS + 10)])
    killed = publisher()
    with killed.lease():
        assert killed.step()
        with monkeypatch.context() as patched:
            patched.setattr(killed, "_keep", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                killed.step()

    read = sent(publisher())

    assert read == 2 * ROWS + 10
    assert len(receiver.got) == 3 * ROWS + 10
    assert len({each.id for each in receiver.got}) == read


def test_a_row_that_is_refused_is_listed_until_a_later_one_of_its_key_is_taken(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    receiver.refuses = lambda each: "too dear" if each.row and each.row["amount"] > 5 else None
    write(lake, [order(0), order(1, "6.00"), order(2)])
    sent(publisher())

    assert sorted(receiver.rows) == [("o0",), ("o2",)]
    ((key, said),) = refusals(lake, "out").items()
    assert (key, said["why"], said["version"]) == ('{"order_id":"o1"}', "too dear", 0)
    (seen,) = publications(lake)
    assert (seen["read"], seen["accepted"], seen["refused"]) == (3, 2, 1)

    write(lake, [order(1, "2.00")], "order_id = 'o1'")
    sent(publisher())
    assert not refusals(lake, "out")
    assert len(receiver.rows) == 3


def test_a_target_that_refuses_everything_stops_before_the_list_is_endless(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    receiver.refuses = lambda _: "no"
    write(lake, [order(number) for number in range(2 * ROWS)])

    with pytest.raises(DataError, match="refuses more than 1,000 rows"):
        sent(publisher())

    receiver.refuses = lambda _: None
    sent_anew(publisher())
    assert sent(publisher()) == 2 * ROWS
    assert not refusals(lake, "out")


def test_a_range_is_sent_once_more(lake: Lake, publisher: Starts, receiver: Receiver) -> None:
    write(lake, [order(number) for number in range(10)])
    sent(publisher())
    receiver.got.clear()

    again = publisher()
    with again.lease():
        while again.step():
            pass
        since = NOON + timedelta(minutes=3)
        count = again.replay(Range("ordered_at", since, since + timedelta(minutes=2)))

    assert count == 2
    assert [each.key["order_id"] for each in receiver.got] == ["o3", "o4"]
    (seen,) = publications(lake)
    assert (seen["read"], seen["replayed"], seen["lag"]) == (10, 2, 0)


def test_what_was_deleted_behind_it_is_refused_and_all_is_sent_anew_on_request(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    write(lake, [order(0)])
    sent(publisher())
    write(lake, [order(1)])
    table = opened(lake.table(ORDERS))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)

    with pytest.raises(DataError, match="cannot be read any more") as refused:
        sent(publisher())
    assert "--again" in refused.value.hint

    sent_anew(publisher())
    assert sorted(receiver.rows) == [("o0",), ("o1",)]
    assert {each.generation for each in receiver.got} == {1, 2}


def test_a_table_that_is_made_anew_is_refused(lake: Lake, publisher: Starts) -> None:
    write(lake, [order(0)])
    sent(publisher())
    lake.table(ORDERS).remove()
    write(lake, [order(0)])
    write(lake, [order(1)])

    with pytest.raises(DataError, match="another history"):
        sent(publisher())


def test_a_column_that_is_new_leaves_from_its_version_on(
    lake: Lake, publisher: Starts, receiver: Receiver
) -> None:
    write(lake, [order(0)])
    sent(publisher())
    write(lake, [order(1)])
    write(lake, [order(2, note="gift")])
    living = publisher()
    with living.lease():
        while living.step():
            pass
        write(lake, [order(3, note="late")])
        while living.step():
            pass

    assert [each.row and each.row.get("note") for each in receiver.got] == [
        None,
        None,
        "gift",
        "late",
    ]


def test_partitions_keys_of_null_masks_and_foreign_text(lake: Lake, receiver: Receiver) -> None:
    """The values of partition columns are in the log and not in the files of delta-rs."""
    lake.open_for_writing()
    text = "\u0000 ' \" \\ % \U0001f600 " + "x" * 1_000_000
    hour = NOON.date()
    rows = [
        {"hour": hour, "country": None, "ends": NOON, "orders": 1, "text": text, "mail": "a@b.c"},
        {"hour": hour, "country": "FI", "ends": NOON, "orders": 2, "text": "", "mail": None},
    ]
    write(lake, rows, table=HOURS, by=["hour"])

    for step in (lambda: None, lambda: write(lake, rows[1:], f"hour = '{hour}'", table=HOURS)):
        step()
        to = publishing.publisher(
            lake,
            receiver,
            lambda _: ToFunction(receiver),
            table=HOURS,
            masks=lambda: frozenset({"mail"}),
        )
        sent(to)

    first, second, gone = receiver.got
    assert first.row is not None
    assert {each.key["country"] for each in (first, second)} == {None, "FI"}
    by_country = {each.key["country"]: each.row for each in (first, second) if each.row}
    assert by_country[None]["text"] == text
    assert by_country[None]["hour"] == hour
    assert by_country[None]["mail"] not in {None, "a@b.c"}
    assert by_country["FI"]["mail"] is None
    assert (dict(gone.key), gone.row) == ({"hour": hour, "country": None}, None)


def test_events_that_share_a_key_are_rows_of_their_own(lake: Lake, receiver: Receiver) -> None:
    """Of a judged table a copy is the same key at the same time; one of two is removed, and the other stays."""
    lake.open_for_writing()

    def to() -> Publisher:
        return publishing.publisher(lake, receiver, lambda _: ToFunction(receiver), table=EVENTS)

    write(lake, [{**order(0), "order_id": "o"}, {**order(1), "order_id": "o"}], table=EVENTS)
    sent(to())
    write(lake, [{**order(1), "order_id": "o"}], "order_id = 'o'", table=EVENTS)
    sent(to())

    assert len(receiver.got) == 3
    assert [*receiver.rows] == [("o", NOON + timedelta(minutes=1))]


def test_only_one_process_sends(lake: Lake, publisher: Starts) -> None:
    write(lake, [order(0)])
    with (
        publisher().lease(),
        pytest.raises(TransientError, match="published already"),
        publisher().lease(),
    ):
        pass


@dataclass
class History:
    """A table that is written at random, and what it has."""

    lake: Lake
    chance: random.Random
    now: dict[int, str] = field(default_factory=dict)
    number: int = 0

    def write(self) -> None:
        """Append, replace or remove rows, or put files together."""
        some = self.chance.sample(sorted(self.now), self.chance.randint(0, len(self.now)))
        names = f"order_id IN ({', '.join(repr(f'o{each}') for each in some)})"
        match self.chance.choice(["append", "append", "replace", "remove", "compact"]):
            case "replace" if some:
                self.now |= {each: f"{self.chance.randint(1, 3)}.00" for each in some}
                write(self.lake, [order(each, self.now[each]) for each in some], names)
            case "remove" if some:
                opened(self.lake.table(ORDERS)).delete(names)
                for each in some:
                    del self.now[each]
            case "compact" if self.number:
                opened(self.lake.table(ORDERS)).optimize.compact()
            case _:
                new = range(self.number, self.number + self.chance.randint(1, 9))
                self.number = new.stop
                self.now |= dict.fromkeys(new, "1.00")
                write(self.lake, [order(each) for each in new])


def _interrupted(_: object) -> None:
    raise KeyboardInterrupt


def test_random_histories_with_kills_leave_what_the_table_has(
    lake: Lake,
    publisher: Starts,
    receiver: Receiver,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Appends, replacements, removals and compaction, in batches of a few rows, killed before and behind the answer."""
    monkeypatch.setattr("strandline.engine.flow.publisher.ROWS", 3)
    history = History(lake, chance)
    for _ in range(60):
        match chance.choice(["write", "write", "write", "send", "kill"]):
            case "write":
                history.write()
            case "send" if history.number:
                sent(publisher())
            case "kill" if history.number:
                left, keeps = chance.randint(0, 4), chance.random() < 0.5
                killed = publisher()
                with killed.lease(), monkeypatch.context() as patched, suppress(KeyboardInterrupt):
                    if not keeps:
                        patched.setattr(killed, "_keep", _interrupted)
                    while left and killed.step():
                        left -= 1
    sent(publisher())

    amounts = {key: row["amount"] for key, row in receiver.rows.items()}  # type: ignore[misc]
    assert amounts == {(f"o{each}",): Decimal(amount) for each, amount in history.now.items()}
    (seen,) = publications(lake)
    assert seen["read"] == len({each.id for each in receiver.got})
    by_id: dict[str, set[str]] = {}
    for each in receiver.got:
        by_id.setdefault(each.id, set()).add(str(each.row))
    assert {len(each) for each in by_id.values()} == {1}
