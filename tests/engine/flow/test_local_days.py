"""Windows that are days of a time zone: the same rows in every mode, each once, and what is around them knows the day."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.kind import Day
from strandline.core.stateful import Batch
from strandline.core.table import Derived, Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.explain_gold import Step, emitted_by
from strandline.engine.flow.batch.batch_accounting import begins_windows
from strandline.engine.lake.commit.delta_commit import rows_now
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.proof.verify import count_faults
from strandline.engine.repair import closed_range
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import closed_days
from strandline.engine.repair.replay import replay
from tests.support.edits import CLICKS
from tests.support.edits_of_windows import COUNTS
from tests.support.events import TABLE, commits, readings, received
from tests.support.literal import TWO, WAYS, in_every_way, put
from tests.support.local_days import (
    AUTUMN,
    DAILY,
    FOLLOWED,
    HELSINKI,
    SO_FAR,
    SPRING,
    in_zone,
    log_of,
)
from tests.support.modes import derive, twin
from tests.support.morning import STRICT
from tests.support.rows import Row, rows, shown

pytestmark = pytest.mark.slow

SHOWN = ("site", "day", "day_from", "day_until", "sales", "revenue")
IN_SPRING = """
    site | day        | day_from                  | day_until                 | sales | revenue
    x    | 2026-03-28 | 2026-03-27T22:00:00+00:00 | 2026-03-28T22:00:00+00:00 | 2     | 3
    x    | 2026-03-29 | 2026-03-28T22:00:00+00:00 | 2026-03-29T21:00:00+00:00 | 2     | 12
    y    | 2026-03-30 | 2026-03-29T21:00:00+00:00 | 2026-03-30T21:00:00+00:00 | 2     | 3
    x    | 2026-03-31 | 2026-03-30T21:00:00+00:00 | 2026-03-31T21:00:00+00:00 | 1     | 1
"""
IN_AUTUMN = """
    site | day        | day_from                  | day_until                 | sales | revenue
    x    | 2026-10-24 | 2026-10-23T21:00:00+00:00 | 2026-10-24T21:00:00+00:00 | 1     | 1
    x    | 2026-10-25 | 2026-10-24T21:00:00+00:00 | 2026-10-25T22:00:00+00:00 | 2     | 6
    x    | 2026-10-26 | 2026-10-25T22:00:00+00:00 | 2026-10-26T22:00:00+00:00 | 1     | 8
"""
OPEN = """
    site | day        | day_from                  | day_until                 | sales | revenue
    x    | 2026-04-05 | 2026-04-04T21:00:00+00:00 | 2026-04-05T21:00:00+00:00 | 1     | 1
"""


def test_a_short_day_is_the_same_in_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    """Twenty-three hours; the last microsecond of one day and the first of the next are in different windows."""
    found = in_every_way(spark, tmp_path, DAILY, log_of(SPRING), ways=WAYS)

    assert shown(found, *SHOWN) == rows(IN_SPRING)


@pytest.mark.whole
def test_a_long_day_is_the_same_in_a_batch_and_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Twenty-five hours."""
    found = in_every_way(spark, tmp_path, DAILY, log_of(AUTUMN), ways=TWO)

    assert shown(found, *SHOWN) == rows(IN_AUTUMN)


@pytest.mark.whole
@pytest.mark.parametrize("table", [SO_FAR, FOLLOWED], ids=["upserted", "recomputed"])
def test_days_that_are_emitted_before_their_end_are_the_same_in_a_batch_and_a_stream(
    spark: SparkSession, tmp_path: Path, table: Derived
) -> None:
    """An upserted day grows, and one that is recomputed follows; both have the day that is still open."""
    found = in_every_way(spark, tmp_path, table, log_of(SPRING), ways=TWO)

    assert shown(found, *SHOWN) == sorted(
        rows(IN_SPRING) + rows(OPEN), key=lambda row: tuple(row.items())
    )


STEPS = """
    batch | k | site | v | at
    1     | a | x    | 1 | 2026-03-28T22:00:00+00:00
    2     | b | z    | 1 | 2026-03-29T21:09:59.999+00:00
    3     | c | z    | 1 | 2026-03-29T21:10:00+00:00
    4     | d | x    | 2 | 2026-03-29T20:59:59+00:00
    5     | e | z    | 1 | 2026-03-29T21:20:00+00:00
"""
"""The watermark stays ten minutes behind: a millisecond before the end of the day, then at it."""


@pytest.mark.whole
def test_a_day_is_emitted_once_when_the_watermark_is_at_its_end_and_its_state_is_gone_then(
    spark: SparkSession, lake: Lake
) -> None:
    """A sale that comes later still is dropped and counted, as with any window; a backfill of the local day brings it in."""
    emitted, kept = [], []
    for number in "12345":
        put(lake, log_of(STEPS), number)
        derive(spark, lake, DAILY)
        emitted.append(_days(lake))
        state = spark.read.format("statestore").load(str(lake.checkpoint(DAILY)))
        kept.append(sorted({str(row[0]) for row in state.select("key.day.date").collect()}))

    assert emitted == [[], [], *[["2026-03-29"]] * 3]
    assert kept == [["2026-03-29"], ["2026-03-29", "2026-03-30"], *[["2026-03-30"]] * 3]
    before = balance(DAILY, lake)
    assert (before.read, before.good, before.dropped_by_watermark, before.counted) == (5, 4, 1, 1)
    (fault,) = before.faults
    hint = "strandline backfill gold.sales_daily --since 2026-03-28T22:00:00+00:00 --until 2026-03-28T22:00:01+00:00"
    assert hint in fault

    span = closed_range.typed("2026-03-29", "2026-03-30", DAILY)
    done = backfill(spark, DAILY, lake, span)

    assert span.in_text() == ("2026-03-28T22:00:00+00:00", "2026-03-29T21:00:00+00:00")
    assert (done.came, done.gone) == (1, 1)
    after = balance(DAILY, lake)
    assert (after.faults, after.good, after.healed) == ([], 5, 1)
    assert [*count_faults(spark, DAILY, {"a stream": lake})] == []


def _days(lake: Lake) -> list[str]:
    return [row["day"] for row in _rows(lake, DAILY)]


def _rows(lake: Lake, table: Derived) -> list[Row]:
    return shown(opened(lake.table(table)).to_pyarrow_table().to_pylist())


@pytest.mark.whole
@pytest.mark.parametrize(
    ("zone", "text"),
    [
        (
            "America/Sao_Paulo",
            """
            batch | k | site | v | at
            1     | a | x    | 1 | 2018-11-04T02:59:59.999999+00:00
            1     | b | x    | 2 | 2018-11-04T03:00:00+00:00
            2     | c | x    | 4 | 2018-11-05T01:59:59.999999+00:00
            2     | d | x    | 8 | 2018-11-05T02:00:00+00:00
            3     | e | x    | 8 | 2018-11-08T02:00:00+00:00
            """,
        ),
        (
            "Pacific/Apia",
            """
            batch | k | site | v | at
            1     | a | x    | 1 | 2011-12-30T09:59:59.999999+00:00
            1     | b | x    | 2 | 2011-12-30T10:00:00+00:00
            2     | c | x    | 4 | 2011-12-31T09:59:59.999999+00:00
            2     | d | x    | 8 | 2011-12-31T10:00:00+00:00
            3     | e | x    | 8 | 2012-01-04T10:00:00+00:00
            """,
        ),
        (
            "America/St_Johns",
            """
            batch | k | site | v | at
            1     | a | x    | 1 | 2010-11-07T02:29:59.999999+00:00
            1     | b | x    | 2 | 2010-11-07T02:45:00+00:00
            2     | c | x    | 4 | 2010-11-08T03:29:59.999999+00:00
            2     | d | x    | 8 | 2010-11-08T03:30:00+00:00
            3     | e | x    | 8 | 2010-11-12T10:00:00+00:00
            """,
        ),
    ],
)
def test_a_change_at_midnight_is_the_same_in_a_batch_and_a_stream(
    spark: SparkSession, tmp_path: Path, zone: str, text: str
) -> None:
    """No midnight, no day at all, and an hour that comes again after midnight."""
    found = in_every_way(spark, tmp_path, in_zone(DAILY, zone), log_of(text), ways=TWO)

    assert sorted(row["revenue"] for row in found) == ["1", "6", "8"]


@pytest.mark.whole
def test_a_backfill_in_utc_recomputes_whole_local_days_and_no_other(
    spark: SparkSession, lake: Lake
) -> None:
    """A part of a day would be a wrong sum under the key of the whole one."""
    for number in "1234":
        put(lake, log_of(SPRING), number)
        derive(spark, lake, DAILY)
    before = _rows(lake, DAILY)
    _spoil(spark, lake)

    span = closed_range.typed("2026-03-29T12:00", "2026-03-29T12:01", DAILY)
    done = backfill(spark, DAILY, lake, span)

    assert span.in_text() == ("2026-03-28T22:00:00+00:00", "2026-03-29T21:00:00+00:00")
    assert (done.came, done.gone) == (1, 1)
    wrong = [row for row in _rows(lake, DAILY) if row not in before]
    assert sorted(row["day"] for row in wrong) == ["2026-03-28", "2026-03-30", "2026-03-31"]
    across = closed_range.typed("2026-03-28T00:00", "2026-03-31T00:00", DAILY)
    assert across.in_text() == ("2026-03-27T22:00:00+00:00", "2026-03-31T21:00:00+00:00")
    backfill(spark, DAILY, lake, across)
    assert _rows(lake, DAILY) == before


def _spoil(spark: SparkSession, lake: Lake) -> None:
    """Make every sum wrong, as a former function may have."""
    from delta.tables import DeltaTable  # noqa: PLC0415

    DeltaTable.forPath(spark, str(lake.table(DAILY))).update(set={"revenue": F.lit(-1)})


@pytest.mark.whole
def test_local_days_are_closed_one_by_one(spark: SparkSession, lake: Lake) -> None:
    """A day is closed for a repair once its stream has passed its end: the fifth of April is not over."""
    for number in "1234":
        put(lake, log_of(SPRING), number)
        derive(spark, lake, DAILY)

    closed = [str(day) for day in closed_days(DAILY, lake, date(2026, 3, 1))]

    assert (closed[0], closed[-1]) == ("2026-03-28", "2026-04-04")


@pytest.mark.whole
def test_a_sale_says_when_its_day_is_emitted(spark: SparkSession, lake: Lake) -> None:
    """The row of a short day comes after twenty-three hours."""
    put(lake, log_of(SPRING), "1")
    derive(spark, lake, DAILY)
    sale = {"k": "c", "site": "x", "at": datetime(2026, 3, 28, 22, tzinfo=UTC)}

    ends = emitted_by(Step(source=CLICKS, row=sale, table=DAILY, lake=lake))

    assert ends == datetime(2026, 3, 29, 21, tzinfo=UTC)


def test_windows_of_a_table_begin_where_its_days_do(spark: SparkSession, lake: Lake) -> None:
    """So the books know which range a row below the watermark is of; by another zone, or by days of UTC, they do not."""
    put(lake, log_of(SPRING), "1")
    sales = rows_now(spark, CLICKS, lake)

    assert begins_windows(DAILY, sales)
    other = in_zone(DAILY, "Europe/Stockholm")
    assert begins_windows(other, sales)
    assert not begins_windows(replace(other, window=HELSINKI), sales)
    assert not begins_windows(replace(DAILY, window="1 day"), sales)


def test_a_column_of_the_name_is_not_replaced(spark: SparkSession) -> None:
    """In silence it would be lost."""
    sales = spark.createDataFrame([], "at timestamp, day string")

    with pytest.raises(DefinitionError, match="have a column day already") as caught:
        HELSINKI.of(sales, "at")
    assert 'name="local_day"' in caught.value.hint
    assert HELSINKI.of(sales, "at", name="local_day").columns == ["at", "day", "local_day"]


@pytest.mark.parametrize(
    "table",
    [
        replace(in_zone(DAILY, "Europe/Stockholm"), window=HELSINKI),
        replace(COUNTS, window=HELSINKI),
    ],
    ids=["another zone", "days of UTC"],
)
def test_days_that_the_function_does_not_make_are_refused(
    spark: SparkSession, lake: Lake, table: Windowed
) -> None:
    """Before the table is made."""
    put(lake, log_of(SPRING), "1")

    with pytest.raises(DefinitionError, match="groups by nothing of that zone") as caught:
        derive(spark, lake, table)

    assert 'Day("Europe/Helsinki").of(rows, "at").groupBy("day")' in caught.value.hint
    assert not lake.exists(table)


AUCKLAND = Day("Pacific/Auckland")
"""A day ends there at 11:00 of the fixed day."""


def readings_daily(readings_: DataFrame) -> DataFrame:
    """Count the readings of each device and day."""
    days = AUCKLAND.of(readings_, "event_at").groupBy("device_id", "day")
    return days.agg(F.count("*").alias("readings")).select(
        "device_id",
        F.col("day.date").alias("day"),
        F.col("day.start").alias("day_from"),
        F.col("day.end").alias("day_until"),
        "readings",
    )


READINGS = Windowed(
    name="readings_daily",
    reads=(silver.TABLE,),
    transform=readings_daily,
    key=("device_id", "day"),
    window=AUCKLAND,
    window_from="day_from",
    closes_at="day_until",
    source_count="readings",
)
HELD = """
    batch | id | device | value | event_at
    1     | a  | d1     | 1     | 09:00:00
    1     | b  | d1     | 77    | 10:00:00
    1     | c  | d1     | 3     | 12:00:00
"""
AFTERWARDS = """
    batch | id | device | value | event_at
    2     | d  | d1     | 5     | 13:00:00
"""


@pytest.mark.whole
def test_a_replay_waits_for_the_end_of_the_local_day_and_the_day_follows(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hours after the row its day is not over for the stream; an hour later it is, and the row is counted in it."""
    monkeypatch.setattr(catalog, "tables", lambda: (TABLE, silver.TABLE, READINGS))
    _come(spark, lake, HELD)

    early = replay(spark, silver.TABLE, lake)
    _come(spark, lake, AFTERWARDS)
    late = replay(spark, silver.TABLE, lake)

    assert (early.healed, early.wait, late.healed, late.wait) == (0, 1, 1, 0)
    assert early.waits_for == READINGS.id
    anew = twin(lake, "anew")
    derive(spark, anew, silver.TABLE, READINGS, mode=Batch())
    assert _rows(lake, READINGS) == _rows(anew, READINGS)
    assert shown(_rows(lake, READINGS), "day", "readings") == [
        {"day": "2026-11-20", "readings": "2"}
    ]
    assert balance(READINGS, lake).faults == []


def _come(spark: SparkSession, lake: Lake, text: str) -> None:
    for batch in commits(readings(text)):
        received(lake, batch)
        derive(spark, lake, STRICT, READINGS)
