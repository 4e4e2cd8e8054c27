"""The watermark waits for everything that the law admits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from strandline.core.lateness import Lateness, interval, milliseconds
from tests.support.rows import at

SPANS = st.timedeltas(timedelta(0), timedelta(days=30))
DISORDER = st.timedeltas(timedelta(milliseconds=1), timedelta(days=30))
MICROSECOND = timedelta(microseconds=1)


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


@pytest.mark.whole
@pytest.mark.parametrize(
    "span",
    [
        timedelta(0),
        timedelta(milliseconds=1),
        timedelta(seconds=1.5),
        timedelta(hours=1),
        timedelta(days=400, milliseconds=7),
    ],
)
def test_an_interval_in_spark_is_the_span(spark: SparkSession, span: timedelta) -> None:
    """It goes through a text, where a float would show itself."""
    row = spark.range(1).select(interval(span).alias("span")).first()

    assert row is not None
    assert row["span"] == span
    assert milliseconds(span) * timedelta(milliseconds=1) == span


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
