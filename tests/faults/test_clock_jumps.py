"""A clock that is set ten years ahead and back changes no row, and keeps no stream from its restart."""

from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from strandline.core.stateful import AvailableNow
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.service.stream_health import Act, Order, watch
from tests.faults.disk.operations import TABLES, faults, state
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS
from tests.support.morning import LATER
from tests.support.rows import NOON

YEARS = timedelta(days=3650)
MORE = """
    batch | id | device | signal | value | event_at | arrived_at
    5     | n  | d1     | t      | 8     | 13:00:00 | 13:00:01
"""


def filled(spark: SparkSession, lake: Lake, clocks: tuple[datetime, ...]) -> dict[str, object]:
    """Run three times, each with a clock of its own."""
    for events, now in zip((EVENTS, MORE, LATER), clocks, strict=True):
        received(lake, readings(events))
        for table in TABLES:
            run(table, AvailableNow(), lake, site=Site(spark=spark, clock=lambda now=now: now))  # type: ignore[misc]  # the loop's value
    assert faults(lake) == []
    return state(lake)


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_a_clock_that_jumps_both_ways_changes_no_row(spark: SparkSession, lake: Lake) -> None:
    """Late and early are measured on arrival, which is Kafka's, and never on the clock of a run."""
    steady = Lake(lake.root.local.parent / "steady").open_for_writing()

    jumped = filled(spark, lake, (NOON, NOON + YEARS, NOON - YEARS))

    assert jumped == filled(spark, steady, (NOON, NOON, NOON))


def test_a_clock_that_was_set_back_keeps_no_dead_stream_from_its_restart() -> None:
    """Its last attempt lies ten years ahead, and the next one would be due after it."""
    asked = Order(runs=True, at=NOON.isoformat(), by="ann").tried(NOON + YEARS)

    assert watch(asked, None, NOON).act is Act.RESTART


def test_a_suspension_from_the_future_ends() -> None:
    """It is of another host, whose process cannot be seen from here."""
    elsewhere = {"host": "elsewhere", "pid": 1, "at": (NOON + YEARS).isoformat()}

    assert not Order(runs=True, at=NOON.isoformat(), by="ann", rest=elsewhere).is_suspended(NOON)
