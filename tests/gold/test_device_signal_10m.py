"""A window is emitted once when it is final, or whenever it changes; both equal a recount."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold.device_signal_10m import TABLE
from strandline.core.stateful import Batch
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from tests.support.events import believed, commits, readings
from tests.support.modes import ON_CHANGE, STREAMED, answers_of, derive, in_every_mode, proven
from tests.support.proofs import Times
from tests.support.rows import NULL, Row, at, rows

SHOWN = ("device_id", "signal", "window_from", "window_until", "readings")

LOG = """
    batch | partition | id | device | signal | value | event_at        | arrived_at
    1     | 0         | a  | d1     | t      | 1.1   | 09:00:00        | 09:00:01
    1     | 0         | b  | d1     | t      | 2.2   | 09:09:59.999999 | 09:10:00
    1     | 1         | c  | d1     | t      | 5     | 09:10:00        | 09:10:01
    1     | 1         | d  | d1     | h      | 40    | 09:00:00        | 09:00:01
    2     | 0         | e  | d2     | t      | -3.5  | 09:04:00        | 09:10:02
    2     | 0         | a  | d1     | t      | 1.1   | 09:00:00        | 09:10:03
    2     | 1         | f  | d1     | t      | 0.3   | 09:01:00        | 10:01:00
    3     | 0         | g  | d1     | t      | 7     | 10:25:00        | 10:25:00
"""


@pytest.mark.prove
@pytest.mark.slow
def test_a_window_is_emitted_once_when_it_is_final_or_whenever_it_changes(
    spark: SparkSession, tmp_path: Path, times: Times
) -> None:
    """The newest reading less 75 minutes is 09:10:00: what ends there is final, what begins there is not.

    Reading f comes an hour after its window began and 50 minutes after it ended, and is counted in it.
    """
    ways = STREAMED[-times(2, 3) :]  # at once is how most other tests of these tables read a log
    answers = in_every_mode(spark, tmp_path, readings(LOG), streamed=ways)

    assert answers.of("closed", *SHOWN, "min_value", "max_value") == rows("""
        device_id | signal | window_from | window_until | readings | min_value | max_value
        d1        | h      | 09:00:00    | 09:10:00     | 1        | 40.0000   | 40.0000
        d1        | t      | 09:00:00    | 09:10:00     | 3        | 0.3000    | 2.2000
        d2        | t      | 09:00:00    | 09:10:00     | 1        | -3.5000   | -3.5000
    """)
    assert answers.of("now", *SHOWN) == rows("""
        device_id | signal | window_from | window_until | readings
        d1        | h      | 09:00:00    | 09:10:00     | 1
        d1        | t      | 09:00:00    | 09:10:00     | 3
        d1        | t      | 09:10:00    | 09:20:00     | 1
        d1        | t      | 10:20:00    | 10:30:00     | 1
        d2        | t      | 09:00:00    | 09:10:00     | 1
    """)


@pytest.mark.whole
@pytest.mark.parametrize(("newest", "emitted"), [("10:24:59.999999", 0), ("10:25:00.000999", 1)])
def test_a_window_is_final_to_the_millisecond_in_stream_and_batch(
    spark: SparkSession, lake: Lake, newest: str, emitted: int
) -> None:
    """Spark's watermark has milliseconds; a batch that kept the microseconds would emit more or fewer windows."""
    believed(spark, lake, readings(f"event_at\n09:05:00\n{newest}"))
    whole = Lake(lake.root.parent / "whole").open_for_writing()
    believed(spark, whole, readings(f"event_at\n09:05:00\n{newest}"))

    derive(spark, lake, TABLE)
    derive(spark, whole, TABLE, mode=Batch())

    assert len(answers_of(lake).closed) == emitted
    assert answers_of(lake).closed == answers_of(whole).closed


@pytest.mark.whole
def test_after_each_batch_the_rows_equal_a_recount(spark: SparkSession, lake: Lake) -> None:
    """Rows beside the changed ones in a touched window must survive the rewrite of its files."""
    events = readings("""
        batch | id | device | signal | value | event_at | arrived_at
        1     | a  | d1     | t      | 1     | 09:00:00 | 09:00:00
        1     | b  | d2     | t      | 2     | 09:00:00 | 09:00:00
        1     | c  | d1     | t      | 3     | 09:10:00 | 09:10:00
        2     | d  | d1     | t      | 4     | 09:01:00 | 09:20:00
        2     | e  | d3     | t      | 5     | 09:10:00 | 09:20:00
        3     | f  | d2     | t      | 6     | 09:21:00 | 09:21:00
        4     | g  | d1     | t      | 7     | 09:02:00 | 10:02:00
        4     | h  | d1     | t      | 8     | 09:59:00 | 10:02:00
    """)
    for batch in commits(events):
        believed(spark, lake, batch)
        derive(spark, lake, ON_CHANGE)

        answers = answers_of(lake)
        assert answers.now == recounted(answers.silver)
        assert proven(lake, (ON_CHANGE,), bronze=False)


@pytest.mark.whole
def test_a_thousand_decimals_are_summarised_exactly(
    spark: SparkSession, lake: Lake, chance: random.Random
) -> None:
    """With doubles the average differs in its last digits with the order of addition."""
    values = [Decimal(chance.randrange(-(10**14), 10**14)).scaleb(-4) for _ in range(1_000)]
    table = "batch | id | signal | value | event_at | arrived_at\n" + "\n".join(
        f"{n % 3} | {n} | s{n % 7} | {value} | 09:{n % 40:02}:00 | 09:40:00"
        for n, value in enumerate(values)
    )
    believed(spark, lake, readings(table))

    derive(spark, lake, ON_CHANGE)

    answers = answers_of(lake)
    assert len(answers.silver) == 1_000
    assert answers.now == recounted(answers.silver)


@pytest.mark.whole
@pytest.mark.parametrize(
    "table",
    [TABLE, pytest.param(ON_CHANGE, marks=pytest.mark.prove(alone="a quarter of a minute"))],
    ids=str,
)
def test_what_comes_after_its_window_closed_is_counted_to_the_row(
    spark: SparkSession, lake: Lake, table: Table
) -> None:
    """Silver refuses such rows by its own watermark first; if it ever does not, the ledger must count them.

    The watermark is 10:35:01.5 less 75 minutes, 09:20:01.5: the window that ended at 09:20 is gone
    with its four readings, of which Spark itself counts groups and not rows; the next one is open.
    """
    for old in (
        "09:00:00 | 09:00:00 | t",
        "10:35:01.500 | 10:35:01.500 | t",
        "10:35:01.500 | 10:35:01.500 | t",  # a table that emits on change drops a batch later
    ):
        believed(spark, lake, readings(f"event_at | arrived_at | signal\n{old}"))
        derive(spark, lake, table)
    believed(
        spark,
        lake,
        readings("""
            event_at        | arrived_at | signal
            09:10:00        | 10:00:00   | t
            09:10:00        | 10:00:00   | t
            09:19:59.999999 | 10:00:00   | h
            09:05:00        | 10:00:00   | t
            09:20:00        | 10:00:00   | t
            10:36:00        | 10:36:00   | t
        """),
    )

    derive(spark, lake, table)

    windows = answers_of(lake).closed if table is TABLE else answers_of(lake).now
    found = [entry for _, entry in entries(lake.table(table)) if entry.read]
    assert [(entry.read, entry.good, entry.dropped_by_watermark) for entry in found] == [
        *[(1, 1, 0)] * 3,
        (6, 2, 4),
    ]
    assert {entry.duplicates for entry in found} == {0}
    assert [row for row in windows if row["window_from"] == "09:10:00"] == []
    (fault,) = balance(table, lake).faults
    assert "dropped 4 rows below the watermark" in fault


def recounted(readings: list[Row]) -> list[Row]:
    """Summarise silver's rows in plain Python."""
    windows = defaultdict[tuple[str, str, str], list[Decimal]](list)
    for row in readings:
        windows[row["device_id"], row["signal"], opened(row["event_at"])].append(
            Decimal(row["value"])
        )
    return sorted(summaries(windows), key=lambda row: tuple(row.items()))


def summaries(windows: dict[tuple[str, str, str], list[Decimal]]) -> Iterator[Row]:
    for (device, signal, start), values in windows.items():
        until = at(start) + timedelta(minutes=10)
        average = sum(values, Decimal(0)) / len(values)
        yield {
            "device_id": device,
            "signal": signal,
            "window_from": start,
            "window_until": until.time().isoformat(),
            "readings": str(len(values)),
            "min_value": f"{min(values):f}",
            "max_value": f"{max(values):f}",
            "avg_value": f"{average.quantize(Decimal(10) ** -8, ROUND_HALF_UP):f}",
            "p95_value": f"{sorted(values)[-(-95 * len(values) // 100) - 1]:f}",
            **dict.fromkeys(("site", "model", "owner"), NULL),  # no static side in these lakes
        }


def opened(moment: str) -> str:
    happened_at = at(moment)
    start = happened_at.replace(minute=happened_at.minute // 10 * 10, second=0, microsecond=0)
    return start.time().isoformat()
