"""What `expect` says where something is other than expected, and how the fixture refuses what it cannot do."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from strandline import DefinitionError, Scenario, Scenarios

from fleet.bronze import user_actions as bronze
from fleet.gold import confirmed_logins
from fleet.silver.user_actions import TABLE
from strandline.testing.look import EventTime, differences, moment, payload

HOUR = datetime(2026, 11, 20, 9, tzinfo=UTC)


def difference(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    return differences(expected, found, ("id",), moment)


def test_rows_are_compared_by_the_columns_that_are_named_in_any_order() -> None:
    """Values are written as persons write them."""
    found = [
        {"id": "b", "at": HOUR, "cost": Decimal("2.50"), "tags": ["x"], "raw": b"1"},
        {"id": "a", "at": HOUR, "cost": None, "tags": [], "raw": None},
    ]

    assert not difference([{"id": "a", "cost": None}, {"at": "09:00", "cost": 2.5}], found)
    assert not difference([{"id": "a"}, {"tags": ["x"], "raw": "1", "at": HOUR}], found)
    assert difference([{"id": "a"}, {"id": "b", "cost": 2.51}], found)
    assert difference([{"id": "a"}], found)
    assert difference([{"id": "a"}, {"id": "b"}, {"id": "b"}], found)


def test_a_difference_is_a_small_table() -> None:
    """Of the rows that are missing, other, or unexpected; a row is known by its key."""
    found = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "d", "n": 4}]

    assert difference([{"id": "a", "n": 1}, {"id": "b", "n": 3}, {"id": "c", "n": 3}], found) == [
        "            id  n",
        "differs     b   2 (expected 3)",
        "missing     c   3",
        "unexpected  d   4",
    ]


def test_many_rows_are_counted() -> None:
    """Ten are enough to see what is wrong."""
    lines = difference([], [{"id": str(number)} for number in range(15)])

    assert lines[-1] == "5 more unexpected"


def test_an_event_time_is_written_as_it_is_in_the_record() -> None:
    """As a text, as a number of its unit, within another field, by a function."""
    (topic,) = bronze.TABLE.topics
    millis = int(HOUR.timestamp() * 1000)

    assert EventTime(topic, (TABLE,)).moved({}, HOUR) == {"event_at": HOUR.isoformat()}
    assert EventTime(topic, (TABLE,), "ts").moved({"ts": 1_700_000_000_000}, HOUR) == {"ts": millis}
    assert EventTime(topic, (TABLE,), "ts").moved({"ts": 1_700_000_000}, HOUR) == {
        "ts": millis // 1000
    }
    within = EventTime(topic, (TABLE,), "source.ts_ms")
    assert within.moved({"source": {"ts_ms": 1_700_000_000_000, "lsn": 1}}, HOUR) == {
        "source": {"ts_ms": millis, "lsn": 1}
    }
    assert within.found({"source": {"ts_ms": millis}}) == HOUR
    by = EventTime(topic, (TABLE,), lambda record, at: {**record, "hour": at.hour})
    assert by.stamped({"id": 1}, HOUR) == {"id": 1, "hour": 9}


def test_a_record_is_json_a_text_bytes_or_a_tombstone() -> None:
    """Decimals keep their digits."""
    assert payload({"cost": Decimal("1.50")}) == b'{"cost":1.50}'
    assert payload("no order") == b"no order"
    assert payload(None) is None
    with pytest.raises(DefinitionError, match="a record is a dictionary"):
        payload(7)


def action(name: str, **more: object) -> dict[str, Any]:
    return {"action_id": name, "user_id": "u1", "action": "login", "device_id": "d1", **more}


@pytest.mark.stream_modes("catch-up")
def test_a_failed_expectation_shows_the_difference_and_why(stream: Scenarios) -> None:
    """Rows, reasons, figures, and the field that was misspelt."""
    s = stream(TABLE)
    s.send(action("a"), {**action("b"), "user": "u1", "user_id": None}, at="09:00:00")

    with pytest.raises(AssertionError) as failed:
        s.expect(
            rows=[{"action_id": "a"}, {"action_id": "b"}],
            quarantined={"late": 1},
            ledger={"good": 2},
        )

    assert [line.rstrip() for line in str(failed.value).splitlines()] == [
        "silver.user_actions in mode catch-up is not as expected",
        "",
        "rows:",
        "         action_id",
        "missing  b",
        "",
        "quarantined:",
        "                 expected  found",
        "late             1         0",
        "missing:user_id  0         1",
        "",
        "ledger:",
        "      expected  found",
        "good  2         1",
        "",
        "held:",
        'missing:user_id: {"action_id":"b","user_id":null,"action… (arrived 09:00:00)',
        "",
        "silver.user_actions: read 2, good 1, copies 0, held 1",
        "hint: silver.user_actions does not declare user, which records have.",
    ]


@pytest.mark.stream_modes("catch-up")
def test_time_that_cannot_move_is_said(stream: Scenarios) -> None:
    """A join waits for both of its topics."""
    s = stream(confirmed_logins.TABLE)
    s.send(action("a"), at="09:00:00", topic="user-actions")
    s.advance("3 hours")

    with pytest.raises(AssertionError, match="nothing was sent to user-confirmations"):
        s.expect(rows=[{"action_id": "a"}])


@pytest.mark.stream_modes("catch-up")
def test_a_record_of_time_that_was_held_is_said(stream: Scenarios) -> None:
    """The first record was none, so time did not move."""
    s = stream(TABLE)
    s.send({"action_id": "a"}, at="09:00:00")
    s.advance("3 hours")

    with pytest.raises(DefinitionError, match=r"moves time was held: missing:user_id"):
        s.expect(rows=[])


REFUSED: dict[str, Callable[[Scenario], object]] = {
    "no column actoin_id": lambda s: s.expect(rows=[{"actoin_id": "a"}]),
    "no figure bad": lambda s: s.expect(ledger={"bad": 1}),
    "no point 'plan'": lambda s: s.stop_at("plan"),
    "no topic users": lambda s: s.send({}, topic="users"),
    "none of the number 9": lambda s: s.send(action("b"), partition=9),
    "'nine' is no moment": lambda s: s.send(action("b"), at="nine"),
    "'two' is no length of time": lambda s: s.advance("two"),
    "no record 'z' was sent": lambda s: s.duplicate("z"),
    "has no fields": lambda s: s.late("text", by="1 hour"),  # type: ignore[arg-type]
    "is no table of this scenario": lambda s: s.expect(rows=[], of=confirmed_logins.TABLE),
    "takes an edited table or a function": lambda s: s.restart_with(7),  # type: ignore[arg-type]
    "did not stop at planned": lambda s: (s.stop_at("planned"), s.restart_with()),
}


@pytest.mark.stream_modes("catch-up")
def test_what_cannot_be_done_is_refused_with_a_hint(stream: Scenarios) -> None:
    """Each by a sentence, and the scenario goes on."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")
    s.expect(rows=[{"action_id": "a"}])

    for sentence, ask in REFUSED.items():
        with pytest.raises(DefinitionError, match=sentence) as refused:
            ask(s)
        assert refused.value.hint

    s.expect(rows=[{"action_id": "a"}])


@pytest.mark.stream_modes("catch-up")
def test_what_is_no_table_of_silver_or_gold_is_refused(stream: Scenarios) -> None:
    """Bronze has no function; a module is no table; a topic is named by its name."""
    with pytest.raises(DefinitionError, match="as received"):
        stream(bronze.TABLE)
    with pytest.raises(DefinitionError, match="takes a table"):
        stream(bronze)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="no topic other"):
        stream(TABLE, time={"other": "ts"})
    s = stream(confirmed_logins.TABLE)
    with pytest.raises(DefinitionError, match="has several topics"):
        s.send(action("a"))
    with pytest.raises(DefinitionError, match="has no quarantine"):
        s.stop_at("quarantine_written")
