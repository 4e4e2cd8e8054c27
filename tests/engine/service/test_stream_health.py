"""A stream that is dead, silent or stuck is restarted a limited number of times; all else is a warning."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strandline.engine.service.stream_health import (
    DELAYS,
    LOOKS,
    STUCK,
    SURE,
    WELL,
    Act,
    Ill,
    Look,
    Order,
    Watch,
    ill,
    is_well,
    looks,
    warned,
    watch,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASKED = Order(runs=True, at=NOON.isoformat(), by="on-call")
TABLE = "silver.device_telemetry"


def pulse(**other: object) -> dict[str, Any]:
    usual = {"batches": 5, "read": 500, "lag": 0, "watermark": None, "state": 10, "gate": None}
    return {**usual, "at": NOON.isoformat(), **other}


def beat(
    *, alive: bool = True, ago: timedelta = timedelta(0), now: datetime = NOON, **of: object
) -> dict[str, Any]:
    process = {"pid": 17, "alive": alive, "at": (now - ago).isoformat(timespec="seconds")}
    return {**process, "tables": {TABLE: pulse(**of)}}


def test_nothing_is_done_when_no_stream_is_to_run() -> None:
    assert watch(None, None, NOON).act is Act.NOTHING
    assert watch(replace(ASKED, runs=False), beat(alive=False), NOON).act is Act.NOTHING


def test_nothing_is_done_while_it_lives() -> None:
    assert watch(ASKED, beat(), NOON) == watch(ASKED, beat(), NOON + timedelta(seconds=50))
    assert watch(ASKED, beat(), NOON).ill is None


@pytest.mark.parametrize(
    ("last", "ill"),
    [
        (None, Ill.DEAD),
        (beat(alive=False), Ill.DEAD),
        (beat(ago=timedelta(minutes=2)), Ill.SILENT),
    ],
)
def test_a_dead_or_silent_stream_is_restarted_at_once(
    last: dict[str, Any] | None, ill: Ill
) -> None:
    decision = watch(ASKED, last, NOON)

    assert (decision.act, decision.ill) == (Act.RESTART, ill)
    assert decision.message


def test_an_age_of_more_than_a_day_is_shown_whole() -> None:
    """25 hours of silence once read as one."""
    later = NOON + timedelta(hours=25)

    assert "for 90000 s" in watch(ASKED, beat(), later).message
    assert "for 1500 minutes" in watch(ASKED, beat(now=later, lag=1), later).message


def test_a_stream_that_ended_by_a_definition_is_not_retried() -> None:
    """A missing column, a missing topic: the next start would fail by the same."""
    for kind, act in {
        "definition": Act.GIVE_UP,
        "transient": Act.RESTART,
        None: Act.RESTART,
    }.items():
        assert watch(ASKED, {**beat(alive=False), "failed": kind}, NOON).act is act
    asked = ASKED.given_up(NOON)
    dead = {**beat(alive=False), "failed": "definition"}
    assert watch(asked, dead, NOON).act is Act.NOTHING, "the alarm is sent once"


def test_a_starting_stream_is_waited_for() -> None:
    assert watch(ASKED, beat(alive=False), NOON, starting=True) == Watch(act=Act.WAIT)
    silent = beat(ago=timedelta(minutes=2))
    assert watch(ASKED, silent, NOON, starting=True).act is Act.RESTART


def test_a_table_that_has_rows_to_read_and_commits_none_is_stuck() -> None:
    later = NOON + STUCK + timedelta(seconds=1)

    assert watch(ASKED, beat(now=later, lag=7), later).ill is Ill.STUCK
    assert watch(ASKED, beat(now=later, lag=0), later).ill is None
    assert watch(ASKED, beat(now=later, lag=7, gate="shut"), later).ill is None, (
        "it waits for the operator"
    )
    again = ASKED.tried(later - timedelta(minutes=1))
    assert watch(again, beat(now=later, lag=7), later).ill is None, "it was started just now"


def test_a_batch_that_does_not_come_back_is_stuck_whatever_it_has_to_read() -> None:
    """It was known by its unread rows alone, and a batch may have none."""
    seconds = int(STUCK.total_seconds())
    moving = {"running": "batch 7", "unmoved": seconds}

    found = watch(ASKED, beat(lag=0, **{**moving, "unmoved": seconds + 60}), NOON)
    assert found.ill is Ill.STUCK
    assert found.message == f"batch 7 of {TABLE} has not come back for 11 minutes"
    assert watch(ASKED, beat(lag=0, **moving), NOON).ill is None
    assert watch(ASKED, beat(lag=0, running=None, unmoved=None), NOON).ill is None


@pytest.mark.parametrize("why", ["gate", "away"])
def test_a_table_that_waits_for_others_is_not_stuck(why: str) -> None:
    """Half an hour without a broker is no fault of the stream, and uses up no attempt."""
    later = NOON + timedelta(minutes=31)

    assert watch(ASKED, beat(now=later, lag=7, **{why: "no broker"}), later).act is Act.NOTHING


def failing(kind: str, tries: int) -> dict[str, Any]:
    return {"says": "no topic", "hint": "make it.", "kind": kind, "since": "noon", "tries": tries}


@pytest.mark.parametrize(
    ("kind", "tries", "act"),
    [
        ("definition", 1, Act.ALERT),
        ("data", 1, Act.ALERT),
        ("unforeseen", SURE - 1, Act.NOTHING),
        ("unforeseen", SURE, Act.ALERT),
    ],
)
def test_one_failing_table_sends_one_alarm_and_restarts_nothing(
    kind: str, tries: int, act: Act
) -> None:
    last = beat(lag=7, failing=failing(kind, tries))
    later = NOON + STUCK * 2

    assert watch(ASKED, last, NOON).act is act
    assert watch(ASKED, {**last, "at": later.isoformat()}, later).act is act, "it is not stuck"
    if act is Act.ALERT:
        decision = watch(ASKED, last, NOON)
        assert (decision.ill, decision.tables) == (Ill.FAILING, (TABLE,))
        assert decision.message == f"{TABLE} fails: no topic"
    assert watch(replace(ASKED, alerted=(TABLE,)), last, NOON).act is Act.NOTHING


def test_a_table_with_new_rows_is_not_stuck_however_old_its_last_commit_is() -> None:
    """After a quiet topic, an opened gate or a broker's outage the table has rows to read only since a moment."""
    later = NOON + timedelta(hours=9)
    just_now = (later - timedelta(seconds=1)).isoformat()
    long_ago = (later - STUCK - timedelta(seconds=1)).isoformat()

    assert watch(ASKED, beat(now=later, lag=7, behind=just_now), later).ill is None
    assert watch(ASKED, beat(now=later, lag=7, behind=long_ago), later).ill is Ill.STUCK


def test_restarts_back_off_and_then_one_alarm_is_sent() -> None:
    """Ten kills in a row give five attempts, each with a longer delay, and then no more."""
    asked, moment, acts = ASKED, NOON, []
    for _ in range(2_000):
        decision = watch(asked, beat(alive=False), moment)
        acts.append(decision.act)
        if decision.act is Act.RESTART:
            asked = asked.tried(moment)
        if decision.act is Act.GIVE_UP:
            asked = asked.given_up(moment)
        moment += timedelta(seconds=1)

    assert acts.count(Act.RESTART) == len(DELAYS)
    assert acts.count(Act.GIVE_UP) == 1
    assert acts.index(Act.GIVE_UP) == sum(DELAYS, timedelta(0)).seconds + 1
    assert set(acts[acts.index(Act.GIVE_UP) + 1 :]) == {Act.NOTHING}


def test_failures_are_forgotten_when_the_stream_has_lived_long_enough_not_at_a_commit() -> None:
    tried = ASKED.tried(NOON)

    assert not is_well(tried, beat(batches=50), NOON + timedelta(minutes=1))
    assert is_well(tried, beat(), NOON + WELL + timedelta(seconds=1))
    assert not is_well(tried, beat(alive=False), NOON + WELL * 2)


def seen(**growing: list[Any]) -> list[Look]:
    """Return looks at a table in which some values take those of a list."""
    still: dict[str, Any] = {"batches": 1, "read": 1, "lag": 0, "watermark": "noon", "state": 0}
    return [
        Look(at=f"look {n}", **{**still, **{name: values[n] for name, values in growing.items()}})
        for n in range(len(next(iter(growing.values()))))
    ]


@pytest.mark.parametrize(
    ("growing", "expected"),
    [
        ({"lag": [1_000 * n for n in range(1, LOOKS + 1)]}, ["lag"]),
        ({"lag": [n for n in range(LOOKS)]}, []),  # noqa: C416  # as the others are written
        ({"lag": [9_000, *[1_000 * n for n in range(1, LOOKS)]]}, []),
        ({"state": [2_000 * n for n in range(1, LOOKS + 1)]}, ["state"]),
        ({"state": [100_000 + n for n in range(LOOKS)]}, []),
        ({"read": [10 * n for n in range(LOOKS)]}, ["watermark"]),
        ({"read": [10 * n for n in range(LOOKS)], "watermark": list("abcdefghij")}, []),
        ({"lag": [1_000 * n for n in range(1, LOOKS)]}, []),
    ],
)
def test_a_trend_that_all_looks_show_is_a_warning(
    growing: dict[str, list[Any]], expected: list[str]
) -> None:
    """Small values, values that fall in between, and too few looks give no warning."""
    assert [each.what for each in warned(TABLE, seen(**growing))] == expected


def test_a_look_has_the_figures_of_the_heartbeat() -> None:
    assert looks(beat(lag=3, state=4))[TABLE] == Look(
        at=NOON.isoformat(timespec="seconds"),
        batches=5,
        read=500,
        lag=3,
        watermark=None,
        state=4,
    )


def test_a_table_that_was_fenced_is_seen_and_no_restart_asks_for_it() -> None:
    """The process lives and waits, so it was called well; a restart would only ask for the lease again."""
    failed = {
        "kind": "fenced",
        "says": "another process has taken over",
        "since": NOON.isoformat(),
        "tries": SURE,
    }
    soon, late = NOON + timedelta(minutes=1), NOON + 2 * STUCK

    assert ill(beat(now=soon, failing=failed), soon, begun=ASKED.at, title="it") is None
    found = ill(beat(now=late, failing=failed), late, begun=ASKED.at, title="it")
    assert found is not None
    assert (found[0], TABLE in found[1], NOON.isoformat() in found[1]) == (Ill.FENCED, True, True)
    decision = watch(ASKED, beat(now=late, failing=failed), late)
    assert (decision.act, decision.ill, decision.tables) == (Act.ALERT, Ill.FENCED, (TABLE,))
    assert watch(ASKED, beat(now=soon, failing=failed), soon).act is Act.NOTHING
    sent = replace(ASKED, alerted=(TABLE,))
    again = watch(sent, beat(now=late, failing=failed), late)
    assert (again.act, again.ill) == (Act.NOTHING, Ill.FENCED)
