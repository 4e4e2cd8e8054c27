"""Going back says which records it means and of which days they speak; what the stream still owns is left to it."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from jobs.cli.goback import begin, possible
from jobs.core.errors import DefinitionError
from jobs.gold import device_signal_10m as gold
from jobs.gold import ip_holds
from jobs.run.lake import Lake
from jobs.run.rewind import Part, rewind
from jobs.run.span import Span
from jobs.run.trace import Spot
from jobs.silver import device_telemetry as silver
from tests.support.four_days import filled

DAYS = [datetime(2026, 11, day, tzinfo=UTC) for day in range(17, 22)]
TOPIC = "device-telemetry"


@pytest.fixture
def days(spark: SparkSession, lake: Lake) -> Lake:
    return filled(spark, lake)


@pytest.mark.slow
def test_it_shows_the_records_and_the_closed_days_of_which_they_speak(days: Lake) -> None:
    """From the second day on: nine records of three days, the last of which the stream still owns."""
    plan = rewind(silver.TABLE, days, DAYS[1])

    assert plan.parts == (Part(topic=TOPIC, partition=0, records=9, first=3, last=11),)
    assert plan.since == DAYS[1] + timedelta(hours=12)
    assert plan.until == DAYS[3] + timedelta(hours=13)
    assert plan.span == Span(since=DAYS[1], until=DAYS[3])
    assert possible(silver.TABLE, days, plan) == plan.span

    by_offset = rewind(silver.TABLE, days, Spot(TOPIC, 0, 3))
    assert by_offset == plan

    above = rewind(gold.TABLE, days, DAYS[1])
    assert above.span == plan.span
    assert above.since == plan.since - timedelta(minutes=10), "a window may begin before its event"


@pytest.mark.slow
def test_what_only_the_stream_can_say_is_refused_with_a_hint(days: Lake) -> None:
    plan = rewind(silver.TABLE, days, DAYS[3])

    assert plan.records == 3
    assert plan.span is None
    with pytest.raises(DefinitionError, match="the stream still owns"):
        possible(silver.TABLE, days, plan)
    with pytest.raises(DefinitionError, match="does not rest on device-telemetry"):
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
def test_where_to_begin_is_a_moment_or_an_offset(text: str, where: object) -> None:
    assert begin(text) == where


@pytest.mark.parametrize("text", ["", "yesterday", "device-telemetry:3", "device-telemetry/x:3"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match="no moment and no offset"):
        begin(text)
