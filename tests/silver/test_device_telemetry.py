"""Each event is a row once, or in the quarantine once, whichever way it came in."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver.device_telemetry import TABLE, device_telemetry
from strandline.core.stateful import AvailableNow, Batch, Mode
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from tests.support.events import frame, readings, received
from tests.support.modes import (
    STEPWISE,
    STREAMED,
    Answers,
    answers_of,
    derive,
    in_every_mode,
    proven,
)
from tests.support.proofs import Times
from tests.support.rows import rows

pytestmark = pytest.mark.slow

DIRTY = """
    batch | partition | id | device | value | event_at | arrived_at | payload
    1     | 0         | a  | d1     | 1     | 09:00:00 | 09:00:01   | -
    1     | 0         | b  | d1     | 2     | 09:00:10 | 09:00:11   | -
    1     | 1         | -  | d2     | 3     | 09:00:20 | 09:00:21   | -
    1     | 1         | c  | d2     | 4     | 07:00:00 | 09:00:31   | -
    2     | 0         | d  | d1     | 5     | 09:10:00 | 09:00:41   | -
    2     | 1         | x  | d2     | 6     | 09:01:00 | 09:01:01   | not json
    2     | 1         | a  | d1     | 1     | 09:00:00 | 09:01:02   | -
    3     | 0         | -  | -      | 7     | 07:00:00 | 09:02:00   | -
    3     | 0         | e  | d1     | -8.25 | 09:02:10 | 09:02:11   | -
"""


@pytest.mark.prove
def test_every_event_is_in_one_place_with_all_its_reasons(
    spark: SparkSession, tmp_path: Path, times: Times
) -> None:
    """The promise of the table, in all modes; all commits at once, as most tests read a log, in `make prove`."""
    ways = STREAMED[-times(2, 3) :]
    answers = in_every_mode(spark, tmp_path, readings(DIRTY), (TABLE,), ways)

    assert answers.of("silver", "event_id", "value", "_partition", "_offset") == rows("""
        event_id | value   | _partition | _offset
        a        | 1.0000  | 0          | 0
        b        | 2.0000  | 0          | 1
        e        | -8.2500 | 0          | 4
    """)
    assert answers.of("quarantine", "_partition", "_offset", "reasons", "event_at") == rows("""
        _partition | _offset | reasons                                   | event_at
        0          | 2       | early                                     | 09:10:00
        0          | 3       | missing:event_id missing:device_id late   | 07:00:00
        1          | 0       | missing:event_id                          | 09:00:20
        1          | 1       | late                                      | 07:00:00
        1          | 2       | malformed                                 | -
    """)


COPIES = """
    batch | partition | id | value | event_at | arrived_at | firmware
    1     | 0         | a  | 13    | 09:00:00 | 09:00:01   | later arrival
    1     | 3         | a  | 15    | 09:00:00 | 09:00:00   | later partition
    1     | 1         | a  | 11    | 09:00:00 | 09:00:00   | the one
    1     | 1         | a  | 12    | 09:00:00 | 09:00:00   | later offset
    1     | 2         | b  | 21    | 09:00:00 | 09:00:00   | the one
    1     | 2         | b  | 21    | 09:00:00 | 09:00:00   | the one
    2     | 0         | a  | 14    | 09:00:00 | 09:00:00   | later commit
    2     | 0         | b  | 22    | 09:00:00 | 09:00:00   | later commit
    2     | 3         | c  | 33    | 09:00:00 | 09:00:00   | later partition
    2     | 0         | c  | 31    | 09:00:00 | 09:00:00   | the one
    3     | 0         | c  | 34    | 09:00:00 | 09:00:00   | later commit
    3     | 0         | c  | 35    | 09:00:01 | 09:00:01   | another time
"""


@pytest.mark.whole
def test_of_copies_the_first_in_bronzes_order_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Of copies that differ, a backfill next year must keep the one that the stream keeps today."""
    answers = in_every_mode(spark, tmp_path, readings(COPIES), (TABLE,), STEPWISE)

    assert answers.of("silver", "event_id", "value", "firmware") == rows("""
        event_id | value   | firmware
        a        | 11.0000 | the one
        b        | 21.0000 | the one
        c        | 31.0000 | the one
        c        | 35.0000 | another time
    """)
    assert answers.quarantine == []


@pytest.mark.whole
def test_the_first_copy_is_kept_when_a_commit_has_many_files(
    spark: SparkSession, lake: Lake
) -> None:
    """Files are read side by side, and the shuffle brings their rows in any order."""
    events = [
        replace(copy, partition=partition)
        for key in range(120)
        for partition in (3, 2, 1, 0)
        for copy in readings(f"""
            id     | value             | event_at
            k{key} | {partition}       | 09:00:00
        """)
    ]
    received(lake, events, files=4)

    derive(spark, lake, TABLE)

    answers = answers_of(lake)
    assert len(answers.silver) == 120
    assert {row["value"] for row in answers.silver} == {"0.0000"}
    assert proven(lake, (TABLE,))


@pytest.mark.whole
def test_bad_rows_are_never_copies_of_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """Two equal events that could not be read are two events; each must be found again."""
    events = readings("""
        batch | partition | id | device | event_at | payload
        1     | 0         | x  | d1     | 09:00:00 | not json
        1     | 0         | x  | d1     | 09:00:00 | not json
        1     | 1         | x  | d1     | 09:00:00 | not json
        2     | 0         | x  | d1     | 09:00:00 | not json
        2     | 0         | g  | -      | 09:00:00 | -
        2     | 0         | g  | -      | 09:00:00 | -
        2     | 0         | g  | d1     | 09:00:00 | -
    """)

    answers = in_every_mode(spark, tmp_path, events, (TABLE,), STEPWISE)

    assert answers.of("quarantine", "_partition", "_offset", "reasons") == rows("""
        _partition | _offset | reasons
        0          | 0       | malformed
        0          | 1       | malformed
        0          | 2       | malformed
        0          | 3       | missing:device_id
        0          | 4       | missing:device_id
        1          | 0       | malformed
    """)
    assert [row["event_id"] for row in answers.silver] == ["g"]


@pytest.mark.whole
def test_rows_that_share_a_part_of_their_key_are_no_copies(spark: SparkSession, lake: Lake) -> None:
    """Most tables have no single id."""
    table = replace(TABLE, key=("device_id", "signal"))
    received(
        lake,
        readings("""
            id | device | signal | event_at
            a  | d1     | s1     | 09:00:00
            b  | d1     | s2     | 09:00:00
            c  | d2     | s1     | 09:00:00
            d  | d1     | s1     | 09:00:00
            e  | d1     | s1     | 09:00:01
        """),
    )

    derive(spark, lake, table)

    assert [row["event_id"] for row in answers_of(lake).silver] == ["a", "b", "c", "e"]


def last(lake: Lake) -> Entry:
    return [entry for _, entry in entries(lake.table(TABLE))][-1]


def settled(entry: Entry) -> tuple[int, int, int, dict[str, int], int]:
    """Return read, good, duplicates, quarantined and dropped."""
    held = dict(entry.quarantined)
    return entry.read, entry.good, entry.duplicates, held, entry.dropped_by_watermark


@pytest.mark.whole
def test_what_the_watermark_drops_is_counted_to_the_row(spark: SparkSession, lake: Lake) -> None:
    """Old arrivals that are sent again after new ones are the one thing that state cannot admit.

    Only an older lake has such rows, whose bronze has no column for how far they lie behind; the ledger calls it a fault.
    What the third batch drops lies below the watermark that the second one began with, 12:00:00 less 75 minutes;
    a row exactly there is dropped.
    """
    events = readings("""
        batch | id | event_at        | arrived_at      | payload
        1     | a  | 12:00:00        | 12:00:00        | -
        2     | b  | 12:00:01        | 12:00:01        | -
        3     | c  | 09:00:00        | 09:00:00        | -
        3     | c  | 09:00:00        | 09:00:00        | -
        3     | d  | 10:45:00        | 10:45:00        | -
        3     | e  | 10:45:01        | 10:45:01        | -
        3     | f  | 10:45:01.000001 | 10:45:01.000001 | -
        3     | a  | 12:00:00        | 12:00:00        | -
        3     | x  | 09:00:00        | 09:00:00        | not json
        3     | y  | 11:30:00        | 11:30:00        | not json
        3     | z  | 06:00:00        | 11:00:00        | -
    """)
    for batch in (1, 2, 3):
        received(lake, [event for event in events if event.batch == batch], marked=False)
        derive(spark, lake, TABLE)

    assert last(lake).watermark == "2026-11-20T10:45:01+00:00"
    answers = answers_of(lake)
    assert settled(last(lake)) == (9, 2, 1, {"malformed": 1, "late": 1}, 4)
    assert [row["event_id"] for row in answers.silver] == ["a", "b", "e", "f"]
    assert len(answers.quarantine) == 2
    (fault,) = balance(TABLE, lake).faults
    assert "dropped 4 rows below the watermark" in fault


@pytest.mark.whole
def test_arrivals_that_run_backwards_within_the_disorder_lose_nothing(
    spark: SparkSession, lake: Lake
) -> None:
    """Two batches may overlap by ten minutes of arrivals; the extreme of every bound at once."""
    law = TABLE.lateness
    assert law.delay == law.late + law.early + timedelta(minutes=10)
    received(
        lake,
        readings("""
            id | event_at | arrived_at
            a  | 12:05:00 | 12:00:00
        """),
    )
    derive(spark, lake, TABLE)
    received(
        lake,
        readings("""
            id | event_at        | arrived_at
            b  | 10:50:00.001    | 11:50:00.001
            c  | 10:50:00.001    | 11:50:00.001
        """),
    )
    derive(spark, lake, TABLE)

    assert settled(last(lake)) == (2, 2, 0, {}, 0)


@pytest.mark.whole
def test_a_clock_of_the_reader_that_ran_back_loses_nothing(spark: SparkSession, lake: Lake) -> None:
    """A bad row waits in the state under the newest arrival before it, so its own clocks cannot drop it."""
    for events in (
        """
            id | event_at | arrived_at | ingested_at
            a  | 12:00:00 | 12:00:00   | 12:00:00
        """,
        """
            id | event_at | arrived_at | ingested_at
            z  | 12:00:00 | 12:00:00   | 12:00:00
        """,
        """
            id | event_at | arrived_at | ingested_at
            b  | 12:01:00 | 12:01:00   | 10:00:00
            c  | 12:01:00 | 12:01:00   | 12:01:00
        """,
    ):
        received(lake, readings(events))
        derive(spark, lake, TABLE)

    assert settled(last(lake)) == (2, 1, 0, {"from_the_future": 1}, 0)


@pytest.mark.whole
@pytest.mark.parametrize("mode", [Batch(), AvailableNow()], ids=["batch", "available-now"])
def test_a_source_without_rows_makes_empty_tables(
    spark: SparkSession, lake: Lake, mode: Mode
) -> None:
    """A topic is made before its first event comes."""
    received(lake, [])

    derive(spark, lake, TABLE, mode=mode)

    assert lake.exists(TABLE)
    assert answers_of(lake) == Answers(silver=[], quarantine=[], closed=[], now=[])
    assert proven(lake, (TABLE,))


@pytest.mark.whole
def test_nested_fields_become_columns_of_their_own(spark: SparkSession) -> None:
    """Firmware is queried often, and a query should not depend on its place inside meta."""
    row = device_telemetry(frame(spark, readings("id | firmware\n a | 2.0.0"))).first()

    assert row is not None
    assert (row["firmware"], row["seq"]) == ("2.0.0", None)
    assert {*RECEIVED.fieldNames(), "_problem"} < {*row.asDict()}
