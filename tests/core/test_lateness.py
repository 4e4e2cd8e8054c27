"""The watermark waits for everything that the law admits."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.core.kind import Lateness, milliseconds, moved
from tests.support.rows import at

SPANS = st.timedeltas(timedelta(0), timedelta(days=30))
DISORDER = st.timedeltas(timedelta(milliseconds=1), timedelta(days=30))
MICROSECOND = timedelta(microseconds=1)
MIDDLE = datetime(2026, 3, 29, 0, 59, 59, 123456, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def test_the_delay_is_the_sum_of_all_that_is_admitted() -> None:
    """A shorter one would drop rows that the law lets pass, a longer one only costs state."""
    law = Lateness(
        late=timedelta(hours=1), early=timedelta(minutes=5), disorder=timedelta(minutes=10)
    )

    assert law.delay == timedelta(minutes=75)
    assert law.delay_text == "4500000 milliseconds"


@pytest.mark.whole
@given(late=SPANS, early=SPANS, disorder=DISORDER, arrival=SPANS, back=SPANS)
def test_no_admitted_row_lies_below_the_watermark(
    *,
    late: timedelta,
    early: timedelta,
    disorder: timedelta,
    arrival: timedelta,
    back: timedelta,
) -> None:
    """The proof in the module's words, with numbers: the earliest row against the highest watermark."""
    law = Lateness(late=late, early=early, disorder=disorder)
    watermark = arrival + early - law.delay
    arrived_before = arrival - min(back, disorder - MICROSECOND)

    assert arrived_before - late > watermark, "at the watermark Spark drops a row already"


@pytest.mark.parametrize(
    "span",
    [
        timedelta(0),
        timedelta(milliseconds=1),
        timedelta(seconds=1.5),
        timedelta(hours=1),
        timedelta(days=400, milliseconds=7),
        timedelta(microseconds=1_999),
    ],
)
def test_a_time_is_moved_by_the_whole_milliseconds_of_a_span(
    spark: SparkSession, span: timedelta
) -> None:
    """As an interval moves it, from the first years to the last, later and earlier alike."""
    times = spark.createDataFrame([(FIRST,), (MIDDLE,), (LAST,), (None,)], "at timestamp")
    whole = milliseconds(span)
    interval = F.expr(f"make_dt_interval(0, 0, 0, {whole} / 1000)")
    at = F.col("at")
    both = ((moved(at, span), at + interval), (moved(at, -span), at - interval))
    rows = times.select(*(F.unix_micros(each) for pair in both for each in pair)).collect()

    assert all(each[0] == each[1] and each[2] == each[3] for each in rows)
    assert (rows[3][0], rows[3][2]) == (None, None)
    assert whole * timedelta(milliseconds=1) <= span


@pytest.mark.whole
@pytest.mark.parametrize(
    ("ahead", "reason"),
    [
        (-timedelta(hours=1) - MICROSECOND, "late"),
        (-timedelta(hours=1), None),
        (timedelta(0), None),
        (timedelta(minutes=5), None),
        (timedelta(minutes=5) + MICROSECOND, "early"),
    ],
)
def test_an_event_is_late_or_early_by_its_own_arrival(
    spark: SparkSession, ahead: timedelta, reason: str | None
) -> None:
    """To the microsecond, and on both sides."""
    arrival = at("09:00:00")
    times = [(arrival + ahead, arrival, arrival + timedelta(minutes=1), arrival)]
    names = ["event_at", "_arrived_at", "_ingested_at", "_newest_before"]
    rows = spark.createDataFrame(times, names)

    (found,) = rows.select(*Lateness().reasons(rows.event_at)).collect()

    assert [each for each in found if each] == ([reason] if reason else [])
