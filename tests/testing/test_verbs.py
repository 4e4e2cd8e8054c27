"""A scenario of each verb of the fixture `stream`, in every mode; `--stream-seconds` prints what each took."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import DefinitionError, Rule, Scenarios

from fleet.gold import confirmed_logins, device_signal_10m
from fleet.silver.user_actions import TABLE, user_actions

LOGINS, SIGNALS = confirmed_logins.TABLE, device_signal_10m.TABLE
ACTIONS, CONFIRMATIONS = "user-actions", "user-confirmations"


def action(name: str, **more: object) -> dict[str, Any]:
    return {"action_id": name, "user_id": "u1", "action": "login", "device_id": "d1", **more}


def confirmation(name: str, of: str) -> dict[str, Any]:
    return {"confirmation_id": name, "action_id": of, "user_id": "u1", "method": "app"}


def reading(name: str, value: float) -> dict[str, Any]:
    meta = {"firmware": "1", "seq": 1}
    return {"event_id": name, "device_id": "d1", "signal": "humidity", "value": value, "meta": meta}


def test_send_lets_a_record_arrive(stream: Scenarios) -> None:
    """A dictionary is JSON, and happened when it arrived unless it says otherwise; a text is no record."""
    s = stream(TABLE)

    s.send(action("a"), action("b", event_at="2026-11-20T08:59:00Z"), at="09:00:00")
    s.send("no action", action("c"))

    s.expect(
        rows=[
            {"action_id": "a", "event_at": "09:00:00"},
            {"action_id": "b", "event_at": "08:59"},
            {"action_id": "c", "event_at": "09:00:02"},
        ],
        quarantined={"malformed": 1},
        ledger={"read": 4, "good": 3},
    )


@pytest.mark.whole("stream", "catch-up")
def test_late_sends_what_happened_long_ago(stream: Scenarios) -> None:
    """Within the hour that the table admits it is a row."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")

    s.late(action("b"), by="2 hours")
    s.late(action("c"), by="50 minutes", at="09:10")

    s.expect(
        rows=[
            {"action_id": "a", "event_at": "09:00:00"},
            {"action_id": "c", "event_at": "08:20:00"},
        ],
        quarantined={"late": 1},
    )


@pytest.mark.whole("batch", "stream")
@pytest.mark.slow
def test_duplicate_sends_a_record_once_more(stream: Scenarios) -> None:
    """The one of a key, the one that was returned, or the last."""
    s = stream(TABLE)
    sent = s.send(action("a"), at="09:00:00")
    s.send(action("b"))

    s.duplicate("a")
    s.duplicate(sent)
    s.duplicate()

    s.expect(
        rows=[{"action_id": "a"}, {"action_id": "b"}],
        ledger={"read": 5, "good": 2, "duplicates": 3},
    )


@pytest.mark.whole("batch", "catch-up")
@pytest.mark.slow
def test_advance_closes_windows(stream: Scenarios) -> None:
    """Of ten minutes: none is there before, and the record that moves time is in none that is compared."""
    s = stream(SIGNALS)
    s.send(reading("a", 40), reading("b", 42), at="09:01:00", topic="device-telemetry")
    s.expect(rows=[])

    s.advance("2 hours")

    window = {"device_id": "d1", "window_from": "09:00:00", "readings": 2, "max_value": 42}
    s.expect(rows=[window])
    s.advance("2 hours")
    s.expect(rows=[window])


@pytest.mark.whole("stream", "catch-up")
@pytest.mark.slow
def test_advance_moves_both_sides_of_a_join(stream: Scenarios) -> None:
    """A log-in is unconfirmed once both topics are beyond its two minutes."""
    s = stream(LOGINS)
    s.send(action("a"), action("b"), at="09:00:00", topic=ACTIONS)
    s.send(confirmation("ca", "a"), at="09:01:00", topic=CONFIRMATIONS)

    s.advance("3 hours")

    s.expect(
        rows=[
            {"action_id": "a", "confirmation_id": "ca", "is_confirmed": True},
            {"action_id": "b", "confirmation_id": None, "is_confirmed": False},
        ]
    )


@pytest.mark.whole(
    "stream-planned",
    "stream-quarantine_written",
    "batch-committed",
    "batch-quarantine_written",
    "catch-up-planned",
    "catch-up-committed",
)
@pytest.mark.parametrize("point", ["planned", "quarantine_written", "committed"])
def test_stop_at_ends_a_batch_and_restart_with_ends_it_well(stream: Scenarios, point: str) -> None:
    """Between the two what is committed is there; afterwards each record is in one place."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")
    s.expect(rows=[{"action_id": "a"}])

    s.stop_at(point)
    s.send(action("b"), "no action")

    has_row = point == "committed"
    s.expect(
        rows=[{"action_id": "a"}, *([{"action_id": "b"}] if has_row else [])],
        quarantined={} if point == "planned" else {"malformed": 1},
    )

    s.restart_with()
    s.send(action("c"))

    s.expect(
        rows=[{"action_id": name} for name in "abc"],
        quarantined={"malformed": 1},
        ledger={"read": 4, "good": 3},
    )


@pytest.mark.whole("batch", "stream")
@pytest.mark.slow
def test_stop_at_ends_a_batch_of_a_table_above(stream: Scenarios) -> None:
    """A join whose rows are committed and whose checkpoint does not know it."""
    s = stream(LOGINS)
    s.send(confirmation("ca", "a"), at="09:01:00", topic=CONFIRMATIONS)
    s.stop_at("committed")
    s.send(action("a"), at="09:01:00", topic=ACTIONS)

    s.restart_with()

    s.expect(rows=[{"action_id": "a", "confirmation_id": "ca", "is_confirmed": True}])


@pytest.mark.whole("catch-up")
@pytest.mark.stream_modes("catch-up", "stream")
def test_restart_with_goes_on_by_an_edit(stream: Scenarios) -> None:
    """What the former code made stays; a batch would compute it anew."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")
    s.expect(rows=[{"action_id": "a"}])

    s.restart_with(replace(TABLE, rules=(*TABLE.rules, Rule(name="never", holds="false"))))
    s.send(action("b"))
    s.expect(rows=[{"action_id": "a"}], quarantined={"never": 1})

    s.restart_with(TABLE)
    s.send(action("c"))
    s.expect(rows=[{"action_id": "a"}, {"action_id": "c"}], quarantined={"never": 1})


@pytest.mark.whole("stream")
@pytest.mark.stream_modes("catch-up", "stream")
def test_restart_with_refuses_what_the_preflight_refuses(stream: Scenarios) -> None:
    """Another key is another state; the table goes on as it was."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")

    with pytest.raises(DefinitionError, match="user_actions"):
        s.restart_with(replace(TABLE, key=("action_id", "user_id")))

    s.restart_with()
    s.send(action("b"))
    s.expect(rows=[{"action_id": "a"}, {"action_id": "b"}])


@pytest.mark.whole("batch", "catch-up")
def test_rows_returns_them(stream: Scenarios) -> None:
    """For what no comparison has a word for."""
    s = stream(TABLE)
    s.send(action("a"), at="09:00:00")

    (row,) = s.rows()

    assert row["action_id"] == "a"
    assert row["event_at"] == s.now


def loud(events: DataFrame) -> DataFrame:
    """Read actions as the table does, their names in capitals."""
    return user_actions(events).withColumn("action", F.upper("action"))


@pytest.mark.whole("stream", "catch-up")
def test_restart_with_takes_a_function_too(stream: Scenarios) -> None:
    """In place of the table's own, before anything was read."""
    s = stream(TABLE)

    s.restart_with(loud)
    s.send(action("a"), at="09:00:00")

    s.expect(rows=[{"action": "LOGIN"}])
