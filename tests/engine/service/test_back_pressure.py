"""A batch of few rows gives way to tables that are behind."""

import pytest

from jobs.engine.service.back_pressure import (
    FEW,
    GRACE,
    HANGS,
    LONGEST,
    SHARE,
    BackPressure,
)
from jobs.silver import user_actions
from tests.engine.written import BRONZE, GOLD, SILVER

OTHER = user_actions.TABLE
"""A table that reads nothing of it."""

EVERY = 1.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pressure(clock: Clock) -> BackPressure:
    """Return what is known right after a batch of bronze that took two seconds."""
    found = BackPressure((BRONZE, SILVER, GOLD, OTHER), EVERY, clock)
    found.committed(BRONZE.id, 2.0)
    found.measured(BRONZE.id, 30, waits=False)
    return found


def after(clock: Clock, pressure: BackPressure, seconds: float, **lags: int | None) -> bool:
    """Let some seconds go in which nothing is committed, and return whether bronze gives way."""
    for name, lag in lags.items():
        pressure.measured(
            {"silver": SILVER, "gold": GOLD, "other": OTHER}[name].id, lag, waits=False
        )
    clock.now += seconds
    return pressure.gives_way(BRONZE.id)


@pytest.mark.parametrize("reader", ["silver", "gold"])
def test_it_gives_way_to_those_who_read_it_until_they_have_moved(
    clock: Clock, pressure: BackPressure, reader: str
) -> None:
    """Gold reads it through silver. Bronze made thirty batches of thirty rows while neither moved."""
    table = {"silver": SILVER, "gold": GOLD}[reader]
    assert not after(clock, pressure, GRACE - 0.1, **{reader: 400}), "it is at its batch"
    assert after(clock, pressure, 0.1)
    pressure.committed(table.id, 60.0)
    assert not pressure.gives_way(BRONZE.id)
    assert not after(clock, pressure, GRACE, **{reader: 0})


def test_it_never_gives_way_for_long(clock: Clock, pressure: BackPressure) -> None:
    """Or tables beside one that hangs would be more than a minute behind."""
    assert after(clock, pressure, LONGEST - 0.1, silver=400)
    assert not after(clock, pressure, 0.1)
    assert LONGEST < 60


def test_many_rows_are_worth_a_batch(clock: Clock, pressure: BackPressure) -> None:
    assert after(clock, pressure, GRACE, silver=400)
    pressure.measured(BRONZE.id, FEW, waits=False)
    assert not pressure.gives_way(BRONZE.id)
    pressure.measured(BRONZE.id, None, waits=False)
    assert not pressure.gives_way(BRONZE.id), "nothing is known"


def test_others_get_a_share_of_the_time(clock: Clock, pressure: BackPressure) -> None:
    """A table that catches up for an hour must not make a small one slow for as long."""
    assert after(clock, pressure, GRACE, other=1_000_000)
    assert not after(clock, pressure, SHARE * 2.0 - GRACE)


def test_none_waits_for_what_waits_itself_or_hangs(clock: Clock, pressure: BackPressure) -> None:
    assert after(clock, pressure, GRACE, silver=400)
    pressure.measured(SILVER.id, 400, waits=True)
    assert not pressure.gives_way(BRONZE.id), "at a gate, in an outage, failing"
    assert not after(clock, pressure, HANGS, silver=400)


def test_the_first_batch_of_a_start_waits_for_nothing(clock: Clock) -> None:
    pressure = BackPressure((BRONZE, SILVER), EVERY, clock)
    pressure.measured(BRONZE.id, 3, waits=False)
    assert not after(clock, pressure, GRACE, silver=400)


def test_a_stream_that_is_to_commit_rarely_has_more_patience(clock: Clock) -> None:
    """Its tables wait for their trigger, and are not behind."""
    pressure = BackPressure((BRONZE, SILVER), 10.0, clock)
    pressure.committed(BRONZE.id, 1.0)
    pressure.measured(BRONZE.id, 3, waits=False)
    assert not after(clock, pressure, 19.9, silver=400)
    assert after(clock, pressure, 0.1)
