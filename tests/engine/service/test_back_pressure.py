"""A batch of few rows gives way to tables that are behind."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import user_actions as bronze
from fleet.silver import user_actions
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.service import backlog
from strandline.engine.service.backlog import (
    GRACE,
    HANGS,
    LONGEST,
    SHARE,
    WORTH_A_BATCH,
    BackPressure,
)
from tests.engine.records import make, put
from tests.engine.service.test_last_batches import hanging, served
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
def moved() -> Clock:
    return Clock()


@pytest.fixture
def pressure(moved: Clock) -> BackPressure:
    """Return what is known right after a batch of bronze that took two seconds."""
    found = BackPressure((BRONZE, SILVER, GOLD, OTHER), EVERY, moved)
    found.committed(BRONZE.id, 2.0)
    found.measured(BRONZE.id, 30, waits=False)
    return found


def after(moved: Clock, pressure: BackPressure, seconds: float, **lags: int | None) -> bool:
    """Let some seconds go in which nothing is committed, and return whether bronze gives way."""
    for name, lag in lags.items():
        pressure.measured(
            {"silver": SILVER, "gold": GOLD, "other": OTHER}[name].id, lag, waits=False
        )
    moved.now += seconds
    return pressure.gives_way(BRONZE.id)


@pytest.mark.whole
@pytest.mark.parametrize("reader", ["silver", "gold"])
def test_it_gives_way_to_those_who_read_it_until_they_have_moved(
    moved: Clock, pressure: BackPressure, reader: str
) -> None:
    """Gold reads it through silver. Bronze made thirty batches of thirty rows while neither moved."""
    table = {"silver": SILVER, "gold": GOLD}[reader]
    assert not after(moved, pressure, GRACE - 0.1, **{reader: 400}), "it is at its batch"
    assert after(moved, pressure, 0.1)
    pressure.committed(table.id, 60.0)
    assert not pressure.gives_way(BRONZE.id)
    assert not after(moved, pressure, GRACE, **{reader: 0})


def test_it_never_gives_way_for_long(moved: Clock, pressure: BackPressure) -> None:
    """Or tables beside one that hangs would be more than a minute behind."""
    assert after(moved, pressure, LONGEST - 0.1, silver=400)
    assert not after(moved, pressure, 0.1)
    assert LONGEST < 60


def test_many_rows_are_worth_a_batch(moved: Clock, pressure: BackPressure) -> None:
    assert after(moved, pressure, GRACE, silver=400)
    pressure.measured(BRONZE.id, WORTH_A_BATCH, waits=False)
    assert not pressure.gives_way(BRONZE.id)
    pressure.measured(BRONZE.id, None, waits=False)
    assert not pressure.gives_way(BRONZE.id), "nothing is known"


def test_others_get_a_share_of_the_time(moved: Clock, pressure: BackPressure) -> None:
    """A table that catches up for an hour must not make a small one slow for as long."""
    assert after(moved, pressure, GRACE, other=1_000_000)
    assert not after(moved, pressure, SHARE * 2.0 - GRACE)


def test_none_waits_for_what_waits_itself_or_hangs(moved: Clock, pressure: BackPressure) -> None:
    assert after(moved, pressure, GRACE, silver=400)
    pressure.measured(SILVER.id, 400, waits=True)
    assert not pressure.gives_way(BRONZE.id), "at a gate, in an outage, failing"
    assert not after(moved, pressure, HANGS, silver=400)


def test_the_first_batch_of_a_start_waits_for_nothing(moved: Clock) -> None:
    pressure = BackPressure((BRONZE, SILVER), EVERY, moved)
    pressure.measured(BRONZE.id, 3, waits=False)
    assert not after(moved, pressure, GRACE, silver=400)


def test_a_stream_that_is_to_commit_rarely_has_more_patience(moved: Clock) -> None:
    """Its tables wait for their trigger, and are not behind."""
    pressure = BackPressure((BRONZE, SILVER), 10.0, moved)
    pressure.committed(BRONZE.id, 1.0)
    pressure.measured(BRONZE.id, 3, waits=False)
    assert not after(moved, pressure, 19.9, silver=400)
    assert after(moved, pressure, 0.1)


@pytest.mark.whole
@pytest.mark.kafka
@pytest.mark.slow
def test_few_rows_of_a_real_stream_wait_until_silver_has_moved(  # noqa: PLR0913, PLR0917  # a stream's site
    spark: SparkSession,
    lake: Lake,
    clock: Callable[[], datetime],
    kafka: str,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nine records come while silver is at its first batch; bronze reads them in one batch, once that is written."""
    monkeypatch.setattr(backlog, "GRACE", 0.5)
    monkeypatch.setattr(backlog, "LONGEST", 300.0)
    below = replace(bronze.TABLE, reads=(topic,))
    above = hanging(replace(user_actions.TABLE, reads=(below,)), answered := tmp_path / "answered")
    make(kafka, topic)
    put(kafka, topic, [(0, 0)])
    site = Site(spark=spark, clock=clock, address=kafka)
    with served((below, above), lake, site, answered) as stream:
        reads, writes = (stream.host.pulses[each.id] for each in (below, above))
        # Its first batch may have been planned before bronze had a commit.
        stream.until(lambda: (writes.running or "").startswith("batch"))
        stream.until(lambda: reads.gives_way)
        put(kafka, topic, [(0, n) for n in range(1, 10)])
        stream.until(lambda: reads.lag == 9)
        assert (reads.gives_way, reads.batches, reads.read) == (True, 1, 1)

        answered.touch()
        stream.until(lambda: reads.read == 10)
        assert reads.batches == 2
        stream.until(lambda: writes.batches > 1)
        stream.stop.set()
        assert stream.ended() is None
