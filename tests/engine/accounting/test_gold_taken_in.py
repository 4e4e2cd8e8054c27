"""What a gold table made of the rows that it read: counted in windows, passed over on purpose, dropped, brought in."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Appended, Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.batch.batch_accounting import Below, begins_windows
from strandline.engine.flow.shadow_lake import summed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.log.ledger_sums import Sums
from strandline.engine.proof.verify import count_faults
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from tests.engine.written import GOLD, entry, numbers, small_lake, written
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


@pytest.mark.whole
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


@pytest.mark.whole
def test_a_selection_takes_in_what_comes_below_its_watermark(
    spark: SparkSession, lake: Lake
) -> None:
    """Nothing waits in it, so Spark refuses nothing; that it had dropped the row was a fault of its books."""
    late = LOG[CLICKS][1].replace("2     | c | x    | 09:05:00", "3     | c | x    | 09:05:00")
    for number in ("1", "2", "3"):
        put(lake, {CLICKS: (FIELDS, late)}, number)
        derive(spark, lake, CHOSEN)

    sheet = balance(CHOSEN, lake)

    assert (sheet.read, sheet.good, sheet.dropped_by_watermark, sheet.rows) == (6, 6, 0, 4)
    assert sheet.faults == []


def renamed(clicks: DataFrame) -> DataFrame:
    """Give the time another name."""
    named = clicks.select("k", F.col("at").alias("happened_at"))
    return named.groupBy("k", F.window("happened_at", "10 minutes")).count()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("window", "begins"),
    [
        (F.window, True),
        (lambda at, _: F.session_window(at, "4 minutes"), False),
        (lambda at, length: F.window(at, length, "5 minutes"), False),
        (lambda at, length: F.window(at, length, length, "1 minute"), False),
        (lambda at, _: F.window(at, "5 minutes"), False),
    ],
    ids=("as declared", "sessions", "overlapping", "shifted", "shorter"),
)
def test_the_range_of_a_drop_is_known_where_windows_are_as_declared(
    spark: SparkSession, lake: Lake, window: Callable[[str, str], Column], *, begins: bool
) -> None:
    """Else a backfill of another range would seem to bring the row in."""

    def counts(clicks: DataFrame) -> DataFrame:
        return clicks.groupBy("k", window("at", "10 minutes")).count()

    rows = clicked(spark, lake)

    assert begins_windows(replace(COUNTS, reads=(CLICKS,), transform=counts), rows) is begins


def test_the_range_of_a_drop_is_unknown_below_a_join_and_known_by_another_name(
    spark: SparkSession, lake: Lake
) -> None:
    """The window of a joined row may lie hours away."""

    def joined(clicks: DataFrame) -> DataFrame:
        others = clicks.select(F.col("k").alias("of"), F.col("at").alias("later"))
        return per_window(clicks.join(others, F.col("k") == F.col("of")))

    rows = clicked(spark, lake)
    of = replace(COUNTS, reads=(CLICKS,))

    assert not begins_windows(replace(of, transform=joined), rows)
    assert not begins_windows(replace(of, reach="1 hour"), rows)
    assert begins_windows(replace(of, transform=renamed), rows)


def sessions(clicks: DataFrame) -> DataFrame:
    """Count the clicks of each visit; one ends four minutes after its last click, and lasts an hour at most."""
    visits = clicks.groupBy("k", F.session_window("at", "4 minutes").alias("visit")).count()
    return visits.select(
        "k", F.col("visit.start").alias("began"), F.col("visit.end").alias("ended"), "count"
    )


VISITS = Windowed(
    name="visits",
    reads=(CLICKS,),
    transform=sessions,
    key=("k", "began"),
    window="1 hour",
    window_from="began",
    closes_at="ended",
)


def test_rows_of_sessions_that_are_over_before_their_declared_length_are_dropped_and_a_backfill_brings_them_in(
    spark: SparkSession, lake: Lake
) -> None:
    """By windows of that length two of them were in time, so they were nowhere, the more so beside one that was not."""
    log = """
        batch | k | site | at
        1     | a | x    | 12:01:00
        2     | a | x    | 13:00:00
        3     | b | x    | 13:01:00
        3     | c | x    | 12:20:00
        3     | c | x    | 12:21:00
        3     | e | x    | 11:30:00
        4     | d | x    | 16:00:00
    """
    for number in ("1", "2", "3", "4"):
        put(lake, {CLICKS: (FIELDS, log)}, number)
        derive(spark, lake, VISITS)

    sheet = balance(VISITS, lake)
    assert (sheet.read, sheet.good, sheet.dropped_by_watermark, sheet.rows) == (7, 4, 3, 3)
    assert "dropped 3 rows below the watermark" in sheet.faults[0]
    hint = "strandline backfill gold.visits --since 2026-11-20T10:30:00+00:00 --until 2026-11-20T13:21:01+00:00"
    assert hint in sheet.faults[0]

    done = backfill(spark, VISITS, lake, Span(since=at("10:30:00"), until=at("13:21:01")))

    assert (done.came, done.gone) == (2, 0)
    after = balance(VISITS, lake)
    assert (after.faults, after.good, after.dropped_by_watermark, after.healed) == ([], 7, 0, 3)


def test_sessions_that_count_their_source_are_refused_before_the_table_is_made(
    spark: SparkSession, lake: Lake
) -> None:
    """At the end of the newest session others are open, so that a right table was called wrong by `check` and `verify`."""
    put(lake, {CLICKS: (FIELDS, "batch | k | site | at\n1 | a | x | 12:01:00")}, "1")
    counting = replace(VISITS, source_count="count")

    with pytest.raises(DefinitionError, match="its windows are sessions") as refused:
        derive(spark, lake, counting)

    assert "leave `source_count` out" in str(refused.value.hint)
    assert not lake.exists(counting)


@pytest.mark.parametrize(
    ("counted", "refused", "dropped"), [(0, 0, 0), (0, 2, 2), (1, 3, 3), (3, 1, 3), (1, 9, 4)]
)
def test_the_larger_figure_counts_up_to_the_rows_below_the_watermark(
    counted: int, refused: int, dropped: int
) -> None:
    """One row that is late by the declared length hid those of shorter windows; overlapping windows refuse a row twice."""
    below = Below(dropped=counted, rows=4, between=(10, 20), asks=True)
    began = entry(
        GOLD, read=6, dropped_by_watermark=counted, dropped_between=(10, 20) if counted else None
    ).settled(good=6 - counted, held={}, dropped=counted)

    found = below.counted_in(began, refused)

    assert (found.dropped_by_watermark, found.good, found.duplicates) == (dropped, 6 - dropped, 0)
    assert found.dropped_between == ((10, 20) if dropped else None)


def test_rows_whose_range_is_unknown_come_back_by_a_rebuild_that_is_promoted(
    tmp_path: Path,
) -> None:
    """The fault advised a backfill of a range that it did not name, after which it was there still."""
    lake, rebuilt = small_lake(tmp_path / "live"), small_lake(tmp_path / "rebuilt")
    for between in (None, (10, 20)):
        refused = entry(GOLD, good=-1, dropped_by_watermark=1, dropped_between=between)
        written(lake.table(GOLD), [], refused.encoded())

        (fault,) = balance(GOLD, lake).faults

        assert "`strandline rebuild gold.device_signal_10m`" in fault
        assert "`strandline promote gold.device_signal_10m`" in fault
        assert "backfill" not in fault

    promoted = summed(rebuilt.table(GOLD), "a rebuild")
    written(lake.table(GOLD), numbers(1), promoted.encoded(), mode="overwrite")
    assert balance(GOLD, lake).faults == []


def clicked(spark: SparkSession, lake: Lake) -> DataFrame:
    put(lake, LOG, "1")
    return spark.read.format("delta").load(str(lake.table(CLICKS)))


@pytest.mark.whole
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
    for version, dropped in enumerate([drop(5, 10, 20), drop(3, 40, 40)]):
        sums.add(version, dropped)
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
