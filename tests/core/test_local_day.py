"""A local day is 23, 24 or 25 hours long, and each instant is in exactly one; Spark and Python agree on which."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.kind import FIRST, LAST, OTHERWISE, Day, day_in
from strandline.engine.runtime.jvm import jvm
from tests.support.proofs import Times

HOUR, INSTANT = timedelta(hours=1), timedelta(microseconds=1)
DAY = timedelta(days=1)


def days_of(year: int) -> list[date]:
    return [date(year, 1, 1) + n * DAY for n in range(365)]


def hours(zone: str, day: date) -> float:
    return (Day(zone).ends(day) - Day(zone).begins(day)) / HOUR


@pytest.mark.parametrize(
    ("zone", "day", "begins", "length"),
    [
        ("Europe/Helsinki", date(2026, 3, 29), "2026-03-28T22:00", 23),
        ("Europe/Helsinki", date(2026, 10, 25), "2026-10-24T21:00", 25),
        ("Europe/Helsinki", date(2026, 11, 28), "2026-11-27T22:00", 24),
        ("Asia/Kolkata", date(2026, 3, 29), "2026-03-28T18:30", 24),
        ("Australia/Lord_Howe", date(2026, 4, 5), "2026-04-04T13:00", 24.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), "2026-10-03T13:30", 23.5),
        # Midnight was skipped: the day begins at one o'clock.
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00", 23),
        ("Asia/Beirut", date(2026, 3, 29), "2026-03-28T22:00", 23),
        ("Africa/Cairo", date(2026, 4, 24), "2026-04-23T22:00", 23),
        # The last hour of the day came twice.
        ("America/Sao_Paulo", date(2019, 2, 16), "2019-02-16T02:00", 25),
        # One minute past midnight the clocks were put back into the day before, which stays over.
        ("America/St_Johns", date(2010, 11, 7), "2010-11-07T02:30", 25),
        # The day that Samoa never had, and those around it.
        ("Pacific/Apia", date(2011, 12, 29), "2011-12-29T10:00", 24),
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00", 0),
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00", 24),
        ("Pacific/Kwajalein", date(1993, 8, 21), "1993-08-21T12:00", 0),
        ("UTC", date(2026, 3, 29), "2026-03-29T00:00", 24),
    ],
)
def test_a_day_begins_at_midnight_of_its_zone(
    zone: str, day: date, begins: str, length: float
) -> None:
    """Twenty-three and twenty-five hours where clocks change, at midnight, by half an hour or by a whole day."""
    assert Day(zone).begins(day) == datetime.fromisoformat(begins).replace(tzinfo=UTC)
    assert hours(zone, day) == length


def test_the_longest_day_bounds_all_windows() -> None:
    """What may lie in a window is read that far around it."""
    zones = ("UTC", "Asia/Kolkata", "Europe/Helsinki", "Australia/Lord_Howe", "Antarctica/Troll")
    assert [Day(each).longest / HOUR for each in zones] == [24, 24, 25, 25, 26]


@pytest.mark.parametrize("moment", [FIRST, LAST])
def test_a_moment_at_the_end_of_the_calendar_is_in_a_day(moment: datetime) -> None:
    """A record of a broken clock is at the last millisecond of the year 9999."""
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"):
        day = Day(zone).date_of(moment)
        assert abs(day - moment.date()) <= DAY
        assert Day(zone).begins(day) <= moment <= Day(zone).ends(day)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Helsink", "did you mean Europe/Helsinki"),
        ("helsinki", "such as Europe/Helsinki"),
        ("+02:00", "the name of an area and a city"),
        ("", "the name of an area and a city"),
        ("EST", "the name of an area and a city"),
        (ZoneInfo("Europe/Helsinki"), "did you mean Europe/Helsinki"),
    ],
)
def test_what_is_no_zone_is_refused_where_it_is_written(zone: str, hint: str) -> None:
    """An offset has no change of clocks, so a day of it would be no business day of any place."""
    with pytest.raises(DefinitionError, match="is no time zone") as caught:
        Day(zone)
    assert hint in caught.value.hint


def test_each_instant_is_in_one_day_of_every_zone(chance: random.Random, times: Times) -> None:
    """By Python's own clocks: a day begins with the first instant that has its date, or a later one."""
    zones = sorted(available_timezones() - OTHERWISE)
    for zone in chance.sample(zones, times(20, len(zones))):
        clock, own = ZoneInfo(zone), Day(zone)
        for day in days_of(chance.randrange(1970, 2038)):
            begins, around = own.begins(day), (own.begins(day - DAY), own.ends(day))
            assert around[0] <= begins <= around[1]
            assert begins.astimezone(clock).date() >= day, f"{zone} {day}"
            before = [begins - INSTANT - n * timedelta(minutes=15) for n in range(12)]
            dates = {each.astimezone(clock).date() for each in before}
            assert max(dates) < day, f"{zone} {day}: an earlier instant has its date"


class Answer(NamedTuple):
    """The day of a moment, in microseconds since 1970, and its date."""

    start: int
    end: int
    date: date


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // INSTANT


def drawn(zone: str, year: int, chance: random.Random) -> Iterator[tuple[str, int, Answer]]:
    """Yield the first instant of each day of a year, the last of the day before, and one in between, with their days."""
    own = Day(zone)
    for day, after in pairwise(days_of(year)):
        begins, ends = own.begins(day), own.begins(after)
        between = begins + chance.random() * (ends - begins)
        for moment in (begins - INSTANT, begins, between):
            found = own.date_of(moment)
            assert own.begins(found) <= moment < own.ends(found), f"{zone} {moment}"
            yield (
                zone,
                micros(moment),
                Answer(*map(micros, (own.begins(found), own.ends(found))), found),
            )


def java_zones(spark: SparkSession) -> set[str]:
    """Return the zones that Java knows."""
    return {*jvm(spark).java.time.ZoneId.getAvailableZoneIds()}


CHANGED_AT_MIDNIGHT = {
    "Africa/Cairo": 2024,
    "America/Sao_Paulo": 2018,
    "America/St_Johns": 2010,
    "Antarctica/Vostok": 1994,
    "Asia/Beirut": 2024,
    "Asia/Kathmandu": 1986,
    "Australia/Lord_Howe": 2024,
    "Europe/Helsinki": 2024,
    "Pacific/Apia": 2011,
    "Pacific/Kwajalein": 1993,
}


@pytest.mark.prove(alone="a minute")
def test_spark_and_python_agree_on_the_day_of_each_instant(
    spark: SparkSession, chance: random.Random, times: Times
) -> None:
    """Two data bases of time zones, Java's and Python's, and two ways to compute: what a stream emits is what a backfill replaces."""
    zones = sorted(available_timezones() & java_zones(spark) - OTHERWISE)
    years = [*CHANGED_AT_MIDNIGHT.items()]
    years += [
        (each, chance.randrange(1970, 2024)) for each in chance.sample(zones, times(20, len(zones)))
    ]
    names, moments, answers = zip(
        *(each for zone, year in years for each in drawn(zone, year, chance)), strict=True
    )
    rows = spark.createDataFrame(
        pa.table({"n": range(len(names)), "zone": names, "at": moments})
    ).repartition(4)
    day = day_in(F.timestamp_micros("at"), F.col("zone"))
    found = rows.select("n", day.alias("day")).select(
        "n", F.unix_micros("day.start"), F.unix_micros("day.end"), "day.date"
    )
    got = {row[0]: Answer(*row[1:]) for row in found.collect()}
    other = [
        (names[n], moments[n], answers[n], got[n])
        for n in range(len(names))
        if got[n] != answers[n]
    ]
    assert other == []
