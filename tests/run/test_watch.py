"""A stream that died, says nothing, or commits nothing is started again, so often and no more; all else is a warning."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.run.order import DELAYS, Order
from jobs.run.watch import LOOKS, STUCK, WELL, Act, Ill, Look, Watch, is_well, looks, warned, watch

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASKED = Order(runs=True, at=NOON.isoformat(), by="on-call")
TABLE = "silver.device_telemetry"


def pulse(**other: object) -> dict[str, Any]:
    told = {"batches": 5, "read": 500, "lag": 0, "watermark": None, "state": 10, "gate": None}
    return {**told, "at": NOON.isoformat(), **other}


def beat(
    *, alive: bool = True, ago: timedelta = timedelta(0), now: datetime = NOON, **of: object
) -> dict[str, Any]:
    told = {"pid": 17, "alive": alive, "at": (now - ago).isoformat(timespec="seconds")}
    return {**told, "tables": {TABLE: pulse(**of)}}


def test_nothing_is_done_where_no_stream_is_to_run() -> None:
    assert watch(None, None, NOON).act is Act.NOTHING
    assert watch(replace(ASKED, runs=False), beat(alive=False), NOON).act is Act.NOTHING


def test_nothing_is_done_while_it_lives() -> None:
    assert watch(ASKED, beat(), NOON) == watch(ASKED, beat(), NOON + timedelta(seconds=50))
    assert watch(ASKED, beat(), NOON).ill is None


@pytest.mark.parametrize(
    ("told", "ill"),
    [
        (None, Ill.DEAD),
        (beat(alive=False), Ill.DEAD),
        (beat(ago=timedelta(minutes=2)), Ill.SILENT),
    ],
)
def test_one_that_is_gone_or_silent_is_started_again_at_once(
    told: dict[str, Any] | None, ill: Ill
) -> None:
    found = watch(ASKED, told, NOON)

    assert (found.act, found.ill) == (Act.RESTART, ill)
    assert found.says


def test_an_age_of_more_than_a_day_is_told_whole() -> None:
    """25 hours of silence once read as one."""
    later = NOON + timedelta(hours=25)

    assert "for 90000 s" in watch(ASKED, beat(), later).says
    assert "for 1500 minutes" in watch(ASKED, beat(now=later, lag=1), later).says


def test_one_that_ended_by_what_it_is_told_is_not_tried_again() -> None:
    """A column that is missing, a topic that is not there: the next start would say the same."""
    for kind, act in {
        "definition": Act.GIVE_UP,
        "transient": Act.RESTART,
        None: Act.RESTART,
    }.items():
        assert watch(ASKED, {**beat(alive=False), "failed": kind}, NOON).act is act
    asked = ASKED.given_up(NOON)
    dead = {**beat(alive=False), "failed": "definition"}
    assert watch(asked, dead, NOON).act is Act.NOTHING, "a person was asked, once"


def test_one_that_is_starting_is_waited_for() -> None:
    assert watch(ASKED, beat(alive=False), NOON, starting=True) == Watch(act=Act.WAIT)
    silent = beat(ago=timedelta(minutes=2))
    assert watch(ASKED, silent, NOON, starting=True).act is Act.RESTART


def test_a_table_that_has_rows_to_read_and_commits_none_is_stuck() -> None:
    later = NOON + STUCK + timedelta(seconds=1)

    assert watch(ASKED, beat(now=later, lag=7), later).ill is Ill.STUCK
    assert watch(ASKED, beat(now=later, lag=0), later).ill is None
    assert watch(ASKED, beat(now=later, lag=7, gate="shut"), later).ill is None, "it waits for you"
    again = ASKED.tried(later - timedelta(minutes=1))
    assert watch(again, beat(now=later, lag=7), later).ill is None, "it was started just now"


@pytest.mark.parametrize("why", ["gate", "away"])
def test_a_table_that_waits_for_others_is_not_stuck(why: str) -> None:
    """Half an hour without a broker is no fault of the stream's, and costs it no attempt."""
    later = NOON + timedelta(minutes=31)

    assert watch(ASKED, beat(now=later, lag=7, **{why: "no broker"}), later).act is Act.NOTHING


def test_what_came_just_now_is_not_stuck_however_old_the_last_commit_is() -> None:
    """A topic that was quiet, a gate that was opened, a broker that is back: the table has only now rows to read."""
    later = NOON + timedelta(hours=9)
    just_now = (later - timedelta(seconds=1)).isoformat()
    long_ago = (later - STUCK - timedelta(seconds=1)).isoformat()

    assert watch(ASKED, beat(now=later, lag=7, behind=just_now), later).ill is None
    assert watch(ASKED, beat(now=later, lag=7, behind=long_ago), later).ill is Ill.STUCK


def test_it_backs_off_and_then_a_person_is_asked_once() -> None:
    """Ten kills in a row: five attempts, each later than the one before, and then no more."""
    asked, moment, acts = ASKED, NOON, []
    for _ in range(2_000):
        found = watch(asked, beat(alive=False), moment)
        acts.append(found.act)
        if found.act is Act.RESTART:
            asked = asked.tried(moment)
        if found.act is Act.GIVE_UP:
            asked = asked.given_up(moment)
        moment += timedelta(seconds=1)

    assert acts.count(Act.RESTART) == len(DELAYS)
    assert acts.count(Act.GIVE_UP) == 1
    assert acts.index(Act.GIVE_UP) == sum(DELAYS, timedelta(0)).seconds + 1
    assert set(acts[acts.index(Act.GIVE_UP) + 1 :]) == {Act.NOTHING}


def test_failures_are_forgotten_when_it_has_lived_for_a_while_not_when_it_has_committed() -> None:
    tried = ASKED.tried(NOON)

    assert not is_well(tried, beat(batches=50), NOON + timedelta(minutes=1))
    assert is_well(tried, beat(), NOON + WELL + timedelta(seconds=1))
    assert not is_well(tried, beat(alive=False), NOON + WELL * 2)


def seen(**growing: list[Any]) -> list[Look]:
    """Return looks at a table, of which some values go through a list."""
    still: dict[str, Any] = {"batches": 1, "read": 1, "lag": 0, "watermark": "noon", "state": 0}
    return [
        Look(at=f"look {n}", **{**still, **{name: values[n] for name, values in growing.items()}})
        for n in range(len(next(iter(growing.values()))))
    ]


@pytest.mark.parametrize(
    ("growing", "told"),
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
    growing: dict[str, list[Any]], told: list[str]
) -> None:
    """Not what is small, not what falls in between, and nothing before there were enough looks."""
    assert [each.what for each in warned(TABLE, seen(**growing))] == told


def test_a_look_is_what_the_stream_says() -> None:
    found = looks(beat(lag=3, state=4))

    assert found[TABLE] == Look(
        at=NOON.isoformat(timespec="seconds"),
        batches=5,
        read=500,
        lag=3,
        watermark=None,
        state=4,
    )
