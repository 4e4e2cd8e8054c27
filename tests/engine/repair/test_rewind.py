"""A rewind plans which records and which days of events are computed again; it leaves the stream's days to the stream."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.gold import ip_holds
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.ask.locate import Spot
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.closed_range import Part, Span, rewind
from strandline.operate.backfill import rewindable, rewound_to
from tests.support.four_days import filled

DAYS = [datetime(2026, 11, day, tzinfo=UTC) for day in range(17, 22)]
TOPIC = "device-telemetry"


@pytest.fixture
def days(spark: SparkSession, lake: Lake) -> Lake:
    return filled(spark, lake)


@pytest.mark.slow
def test_the_plan_has_the_records_and_the_closed_days_of_their_events(days: Lake) -> None:
    """From the second day on there are nine records of three days; the stream still owns the last day."""
    plan = rewind(silver.TABLE, days, DAYS[1])

    assert plan.parts == (Part(topic=TOPIC, partition=0, records=9, first=3, last=11),)
    assert plan.since == DAYS[1] + timedelta(hours=12)
    assert plan.until == DAYS[3] + timedelta(hours=13)
    assert plan.span == Span(since=DAYS[1], until=DAYS[3])
    assert rewindable(silver.TABLE, days, plan) == plan.span

    by_offset = rewind(silver.TABLE, days, Spot(TOPIC, 0, 3))
    assert by_offset == plan

    above = rewind(gold.TABLE, days, DAYS[1])
    assert above.span == plan.span
    assert above.since == plan.since - timedelta(minutes=10), (
        "a window may rewound_to before its event"
    )


@pytest.mark.slow
def test_days_that_the_stream_still_owns_are_refused_with_a_hint(days: Lake) -> None:
    plan = rewind(silver.TABLE, days, DAYS[3])

    assert plan.records == 3
    assert plan.span is None
    with pytest.raises(DefinitionError, match="the stream still owns"):
        rewindable(silver.TABLE, days, plan)
    with pytest.raises(DefinitionError, match="does not read device-telemetry"):
        rewind(ip_holds.TABLE, days, Spot(TOPIC, 0, 3))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("2026-11-17", DAYS[0]),
        ("2026-11-17T00:00", DAYS[0]),
        ("2026-11-17T01:00+01:00", DAYS[0]),
        ("device-telemetry/0:3", Spot(TOPIC, 0, 3)),
        ("a/b/2:40", Spot("a/b", 2, 40)),
    ],
)
def test_a_rewind_begins_at_a_moment_or_an_offset(text: str, where: object) -> None:
    assert rewound_to(text) == where


@pytest.mark.parametrize("text", ["", "yesterday", "device-telemetry:3", "device-telemetry/x:3"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match="neither a moment nor an offset"):
        rewound_to(text)
