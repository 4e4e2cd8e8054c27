"""What a gold table made of the rows that it read: counted in windows, passed over on purpose, dropped, brought in."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.modes import Batch
from jobs.core.table import Appended, Windowed
from jobs.engine.accounting.balance_sheet import balance
from jobs.engine.proof.verify import count_faults
from jobs.engine.repair.backfill import backfill
from jobs.engine.repair.closed_range import Span
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.ledger_sums import Sums
from tests.support.edits import CLICKS, FIELDS, TEN
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import at

LOG = {
    CLICKS: (
        FIELDS,
        """
        batch | k | site | at
        1     | a | x    | 09:00:00
        1     | b | y    | 09:01:00
        1     | a | x    | 09:30:00
        2     | c | x    | 09:05:00
        2     | a | y    | 12:00:00
        3     | a | x    | 15:00:00
        """,
    )
}
"""The third minute of the second commit comes when the first window is long closed."""


def of_x(clicks: DataFrame) -> DataFrame:
    """Keep the clicks of one site."""
    return clicks.where("site = 'x'").select("k", "site", "at")


def per_window(clicks: DataFrame) -> DataFrame:
    """Count clicks."""
    counts = clicks.groupBy(F.window("at", "10 minutes")).agg(F.count("*").alias("n"))
    return counts.select(
        F.col("window.start").alias("began"), F.col("window.end").alias("ended"), "n"
    )


def twice(clicks: DataFrame) -> DataFrame:
    """Count each click twice."""
    return per_window(clicks.unionByName(clicks))


CHOSEN = Appended(
    name="chosen", reads=(CLICKS,), transform=of_x, key=("k",), event_at="at", lateness=TEN
)
COUNTS = Windowed(
    name="counts",
    reads=(CHOSEN,),
    transform=per_window,
    key=("began",),
    window="10 minutes",
    window_from="began",
    closes_at="ended",
    source_count="n",
)


def test_a_gold_table_says_what_it_passed_over_counted_and_dropped_and_a_backfill_brings_it_in(
    spark: SparkSession, lake: Lake
) -> None:
    """It said that all was good; the hint named no range, and the sheet of a healed table said NO for good."""
    for number in ("1", "2", "3"):
        put(lake, LOG, number)
        derive(spark, lake, CHOSEN, COUNTS)

    chosen = balance(CHOSEN, lake)
    assert (chosen.read, chosen.good, chosen.passed_over, chosen.rows) == (6, 6, 2, 4)
    before = balance(COUNTS, lake)
    assert (before.read, before.good, before.dropped_by_watermark, before.counted) == (4, 3, 1, 2)
    assert not before.balanced
    (fault,) = before.faults
    hint = "strandline backfill gold.counts --since 2026-11-20T09:00:00+00:00 --until 2026-11-20T09:00:01+00:00"
    assert "gold.chosen came later than its `lateness` says" in fault
    assert hint in fault
    assert [*count_faults(spark, COUNTS, {"a stream": lake})] == [
        "gold.counts: in a stream its windows count 2 rows of gold.chosen, which has 3 up to the newest of them"
    ]

    done = backfill(spark, COUNTS, lake, Span(since=at("09:00:00"), until=at("09:00:01")))

    assert (done.came, done.gone) == (1, 1)
    after = balance(COUNTS, lake)
    assert (after.faults, after.good, after.dropped_by_watermark, after.healed) == ([], 4, 0, 1)
    assert [*count_faults(spark, COUNTS, {"a stream": lake})] == []


def test_windows_that_count_more_rows_than_were_read_are_a_fault(
    spark: SparkSession, lake: Lake
) -> None:
    """No reader had compared the two before an audit of all rows."""
    double = replace(COUNTS, reads=(CLICKS,), transform=twice)
    put(lake, {CLICKS: (FIELDS, LOG[CLICKS][1].replace("09:05:00", "11:59:00"))}, "1")
    for number in ("2", "3"):
        put(lake, {CLICKS: (FIELDS, LOG[CLICKS][1].replace("09:05:00", "11:59:00"))}, number)
    derive(spark, lake, double, mode=Batch())

    sheet = balance(double, lake)
    assert (sheet.read, sheet.counted) == (6, 10)
    assert [fault for fault in sheet.faults if "10 rows, 4 more than it has read" in fault]


def drop(rows: int, first: int, last: int) -> Entry:
    """Return the entry of a batch that dropped rows between two minutes."""
    minute = 60_000_000
    return Entry(
        table="gold.t",
        mode="available-now",
        stream="s",
        batch=0,
        source="",
        read=rows,
        dropped_by_watermark=rows,
        dropped_between=(first * minute, last * minute),
    )


def repair(first: int, last: int) -> Entry:
    """Return the entry of a backfill of some minutes, the end excluded."""
    since, until = (f"1970-01-01T00:{each:02}:00+00:00" for each in (first, last))
    return Entry(
        table="gold.t",
        mode="backfill",
        stream=f"backfill {first}",
        batch=0,
        source="",
        since=since,
        until=until,
    )


@pytest.mark.parametrize(
    ("repairs", "brought_back"),
    [
        ([(0, 10)], 0),
        ([(0, 21)], 5),
        ([(0, 15), (15, 21)], 5),
        ([(12, 15), (0, 12), (15, 30)], 5),
        ([(0, 59)], 8),
    ],
)
def test_dropped_rows_are_back_when_all_of_their_range_was_computed_again(
    repairs: list[tuple[int, int]], brought_back: int
) -> None:
    """In one backfill or in several; the ranges that are left are those that the fault names."""
    sums = Sums()
    for version, entry in enumerate([drop(5, 10, 20), drop(3, 40, 40)]):
        sums.add(version, entry)
    for version, each in enumerate(repairs, start=2):
        sums.add(version, repair(*each))
    assert sums.brought_back == brought_back
    assert sum(rows for rows, _ in sums.drops) == 8 - brought_back


def test_very_many_drops_are_remembered_as_their_hull() -> None:
    """Nothing grows with history: a table that drops rows for a year has a sheet all the same."""
    sums = Sums()
    for version in range(300):
        sums.add(version, drop(1, version, version))
    assert len(sums.drops) == 100
    assert sum(rows for rows, _ in sums.drops) == sums.dropped == 300
