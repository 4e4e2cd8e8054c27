"""A window is said once when it is final, or again whenever it changes; both are what a recount says."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.core.modes import Batch
from jobs.core.table import Speaks
from jobs.gold.device_signal_10m import TABLE
from jobs.run.lake import Lake
from jobs.run.ledger import entries
from jobs.silver import device_telemetry as silver
from tests.support.events import readings, received
from tests.support.modes import answers_of, commits, derive, in_every_mode, proven, twin
from tests.support.rows import Row, at, rows

ON_CHANGE = replace(TABLE, speaks=Speaks.ON_CHANGE)
BOTH = (silver.TABLE, TABLE)
CHANGING = (silver.TABLE, ON_CHANGE)
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


def test_a_window_is_said_when_no_admitted_reading_can_change_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The newest reading less 75 minutes is 09:10:00: what ends there is final, what begins there is not."""
    answers = in_every_mode(spark, tmp_path, readings(LOG), BOTH)

    assert answers.of("gold", *SHOWN, "min_value", "max_value") == rows("""
        device_id | signal | window_from | window_until | readings | min_value | max_value
        d1        | h      | 09:00:00    | 09:10:00     | 1        | 40.0000   | 40.0000
        d1        | t      | 09:00:00    | 09:10:00     | 3        | 0.3000    | 2.2000
        d2        | t      | 09:00:00    | 09:10:00     | 1        | -3.5000   | -3.5000
    """)
    assert len(answers.silver) == 7


def test_a_window_that_changes_is_said_again_in_every_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A dashboard shows the last word: a late reading that was admitted is in its old window."""
    answers = in_every_mode(spark, tmp_path, readings(LOG), CHANGING)

    assert answers.of("gold", *SHOWN) == rows("""
        device_id | signal | window_from | window_until | readings
        d1        | h      | 09:00:00    | 09:10:00     | 1
        d1        | t      | 09:00:00    | 09:10:00     | 3
        d1        | t      | 09:10:00    | 09:20:00     | 1
        d1        | t      | 10:20:00    | 10:30:00     | 1
        d2        | t      | 09:00:00    | 09:10:00     | 1
    """)


def test_a_window_one_microsecond_short_of_final_is_not_said(
    spark: SparkSession, lake: Lake
) -> None:
    """Spark's watermark has milliseconds; a batch that kept the microseconds would say more or less."""
    for event_at in ("10:24:59.999", "10:24:59.999999"):
        received(
            spark,
            lake,
            readings(f"""
                id         | event_at
                {event_at} | {event_at}
                a          | 09:05:00
            """.replace("| 09:05:00", "| 09:59:00")),
        )
    derive(spark, lake, *BOTH)
    whole = twin(lake, "whole")
    derive(spark, whole, *BOTH, mode=Batch())

    assert answers_of(lake).gold == answers_of(whole).gold == []


def test_after_each_batch_the_last_word_is_what_a_recount_says(
    spark: SparkSession, lake: Lake
) -> None:
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
    for step, batch in enumerate(commits(events)):
        received(spark, lake, batch)
        derive(spark, lake, *CHANGING)
        assert answers_of(lake, CHANGING).gold == recounted(answers_of(lake).silver), step
        assert proven(lake, CHANGING)

    again = twin(lake, "again")
    derive(spark, again, *CHANGING, mode=Batch())
    assert answers_of(again, CHANGING).gold == answers_of(lake, CHANGING).gold


def test_a_thousand_decimals_are_summarised_exactly(spark: SparkSession, lake: Lake) -> None:
    """With doubles the average differs in its last digits with the order of addition."""
    chance = random.Random()
    values = [Decimal(chance.randrange(-(10**14), 10**14)).scaleb(-4) for _ in range(1_000)]
    table = "batch | id | signal | value | event_at | arrived_at\n"
    table += "\n".join(
        f"{n % 3} | {n} | s{n % 7} | {value} | 09:{n % 40:02}:00 | 09:40:00"
        for n, value in enumerate(values)
    )
    received(spark, lake, readings(table))

    derive(spark, lake, *CHANGING)

    answers = answers_of(lake, CHANGING)
    assert len(answers.silver) == 1_000
    assert answers.gold == recounted(answers.silver)


@pytest.mark.parametrize("speaks", list(Speaks))
def test_readings_that_come_after_their_window_closed_are_counted_as_dropped(
    spark: SparkSession, lake: Lake, speaks: Speaks
) -> None:
    """Only old arrivals sent again can be so late; they are in silver, and the ledger says they are not here.

    Silver here is a stranger to the law, so that the rows reach gold at all.
    """
    table = replace(TABLE, speaks=speaks)
    for commit in commits(
        readings("""
            batch | id | value | event_at | arrived_at
            1     | a  | 1     | 09:00:00 | 09:00:00
            1     | b  | 1     | 10:31:00 | 10:31:00
            2     | c  | 1     | 10:32:00 | 10:32:00
            3     | d  | 1     | 09:16:30 | 09:32:00
            3     | e  | 1     | 09:17:30 | 09:32:00
            3     | f  | 1     | 10:33:00 | 10:33:00
        """)
    ):
        received(spark, lake, commit)
        derive(spark, lake, silver.TABLE, table)
    old = """
        batch | id | value | event_at | arrived_at
        4     | g  | 1     | 09:18:30 | 09:32:00
        4     | h  | 2     | 09:19:30 | 09:32:00
        4     | i  | 1     | 09:20:00 | 09:32:00
    """
    derive(spark, lake, silver.TABLE, table)
    received(spark, lake, readings(old))
    derive(spark, lake, silver.TABLE, table)

    dropped = [entry.dropped_by_watermark for _, entry in entries(lake.table(table))]
    assert sum(dropped) == 0
    assert proven(lake, (silver.TABLE, table))


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
        }


def opened(moment: str) -> str:
    happened_at = at(moment)
    start = happened_at.replace(minute=happened_at.minute // 10 * 10, second=0, microsecond=0)
    return start.time().isoformat()
