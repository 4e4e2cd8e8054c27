"""Sales by the day of a shop in Helsinki: a week around each change of its clocks, in tables of every kind that has windows."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.kind import Day
from strandline.core.table import Recomputed, Upserted, Windowed
from tests.support.edits import CLICKS, FIELDS
from tests.support.literal import Log

HELSINKI = Day("Europe/Helsinki")


def sales_daily(sales: DataFrame) -> DataFrame:
    """Sum the sales of each shop and day."""
    days = HELSINKI.of(sales, "at").groupBy("site", "day")
    return days.agg(F.count("*").alias("sales"), F.sum("v").alias("revenue")).select(
        "site",
        F.col("day.date").alias("day"),
        F.col("day.start").alias("day_from"),
        F.col("day.end").alias("day_until"),
        "sales",
        "revenue",
    )


DAILY = Windowed(
    name="sales_daily",
    reads=(CLICKS,),
    transform=sales_daily,
    key=("site", "day"),
    window=HELSINKI,
    window_from="day_from",
    closes_at="day_until",
    source_count="sales",
)
SO_FAR = Upserted(
    name="sales_so_far",
    reads=(CLICKS,),
    transform=sales_daily,
    key=("site", "day"),
    event_at="day_from",
    window=HELSINKI,
    window_from="day_from",
    closes_at="day_until",
)
FOLLOWED = Recomputed(
    name="sales_followed",
    reads=(CLICKS,),
    transform=sales_daily,
    key=("site", "day"),
    window=HELSINKI,
    window_from="day_from",
)

SPRING = """
    batch | k | site | v | at
    1     | a | x    | 1 | 2026-03-27T22:00:00+00:00
    1     | b | x    | 2 | 2026-03-28T21:59:59.999999+00:00
    1     | c | x    | 4 | 2026-03-28T22:00:00+00:00
    2     | d | x    | 8 | 2026-03-29T20:59:59.999999+00:00
    2     | e | y    | 1 | 2026-03-29T21:00:00+00:00
    3     | f | y    | 2 | 2026-03-30T20:59:59.999999+00:00
    3     | g | x    | 1 | 2026-03-30T21:00:00+00:00
    4     | h | x    | 1 | 2026-04-05T12:00:00+00:00
"""
"""The day of the change lasts from 22:00 to 21:00, the days before and after it 24 hours."""

AUTUMN = """
    batch | k | site | v | at
    1     | a | x    | 1 | 2026-10-24T20:59:59.999999+00:00
    1     | b | x    | 2 | 2026-10-24T21:00:00+00:00
    2     | c | x    | 4 | 2026-10-25T21:59:59.999999+00:00
    2     | d | x    | 8 | 2026-10-25T22:00:00+00:00
    3     | e | x    | 1 | 2026-11-01T12:00:00+00:00
"""


def log_of(text: str) -> Log:
    """Return a log of sales."""
    return {CLICKS: (FIELDS, text)}


def in_zone(table: Windowed, zone: str) -> Windowed:
    """Return the same table by the days of another zone."""
    day = Day(zone)

    def by_day(sales: DataFrame) -> DataFrame:
        return (
            day.of(sales, "at")
            .groupBy("site", "day")
            .agg(F.count("*").alias("sales"), F.sum("v").alias("revenue"))
            .select(
                "site",
                F.col("day.date").alias("day"),
                F.col("day.start").alias("day_from"),
                F.col("day.end").alias("day_until"),
                "sales",
                "revenue",
            )
        )

    return replace(table, transform=by_day, window=day)
