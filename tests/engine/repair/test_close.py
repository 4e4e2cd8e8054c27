"""What a silent topic left open is closed on purpose, alike in every mode, proven afterwards, and nothing that comes later is lost."""

from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import confirmed_logins, ip_holds
from fleet.gold import device_signal_10m as gold
from fleet.silver import (
    device_inventory,
    devices,
    dhcp_events,
    user_actions,
    user_confirmations,
)
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import Batch
from strandline.core.table import Table, Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import CLOSES, Lake, forms
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    CLOSED,
    close_ordered,
    order_close,
)
from strandline.engine.proof.verify import Trial, refuse_unsettled, verify
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.close import (
    Closed,
    close,
    close_as_batch,
    closes_at,
    waits,
)
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.rebuild import promote, rebuild
from tests.engine.accounting.test_gold_taken_in import CHOSEN, CLICKS, COUNTS, FIELDS, VISITS
from tests.engine.flow.test_windows_once_over import TABLE as COUNTED
from tests.engine.flow.test_windows_once_over import VIEWS, text
from tests.engine.service.test_handed_over import served
from tests.support.events import readings, received
from tests.support.literal import Log, put
from tests.support.modes import answers_of, derive, has_caught_up, twin
from tests.support.rows import NOON, Row, at, rows, shown
from tests.support.seeds import copied
from tests.support.shapes import arrived

BY = "ops: until closed"
SHOWN = ("device_id", "window_from", "readings")

LOG = """
    batch | id | device | event_at | arrived_at
    1     | a  | d1     | 09:00:00 | 09:00:01
    2     | b  | d1     | 10:59:00 | 10:59:01
    3     | c  | d2     | 10:21:00 | 11:00:00
"""
"""The newest event less 75 minutes is 09:44: the windows of 10:20 and 10:50 are open for as long as the topic is silent."""

ALL = rows("""
    device_id | window_from | readings
    d1        | 09:00:00    | 1
    d1        | 10:50:00    | 1
    d2        | 10:20:00    | 1
""")


def site(spark: SparkSession, now: datetime = NOON) -> Site:
    return Site(spark=spark, clock=lambda: now)


def closed(
    spark: SparkSession, lake: Lake, table: Table = gold.TABLE, now: datetime = NOON
) -> Closed:
    return close(table, lake, site(spark, now), BY)


def windows(lake: Lake) -> list[Row]:
    return answers_of(lake).of("closed", *SHOWN)


def fell_silent(spark: SparkSession, lake: Lake) -> Lake:
    """Fill a lake whose topic has sent three readings, and then none."""

    def make(seed: Lake) -> None:
        received(seed, readings(LOG))
        derive(spark, seed, silver.TABLE, gold.TABLE)

    return copied(lake, "silent", make)


@pytest.fixture
def silent(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake of its own."""
    return fell_silent(spark, lake)


def test_the_last_windows_are_emitted_and_the_ledger_says_by_whose_word(
    spark: SparkSession, silent: Lake
) -> None:
    assert windows(silent) == ALL[:1]

    done = closed(spark, silent)

    assert windows(silent) == ALL
    assert done.until == at("11:09:01")
    found = last_entry(silent.table(gold.TABLE))
    assert found is not None
    assert found[1].closed_by == BY
    assert found[1].watermark == "2026-11-20T11:09:01+00:00"
    assert (found[1].read, found[1].written) == (0, 2)
    assert balance(gold.TABLE, silent).faults == []
    assert is_settled(gold.TABLE, silent)


def test_a_second_close_has_nothing_to_do(spark: SparkSession, silent: Lake) -> None:
    closed(spark, silent)
    before = last_entry(silent.table(gold.TABLE))

    assert closed(spark, silent).report.batches == 0
    assert last_entry(silent.table(gold.TABLE)) == before


def test_what_has_not_ended_by_the_clock_stays_open(spark: SparkSession, silent: Lake) -> None:
    """Events of that time may come in time."""
    done = closed(spark, silent, now=at("10:55:00"))

    assert done.until == at("10:55:00")
    assert windows(silent) == [ALL[0], ALL[2]]
    closed(spark, silent)
    assert windows(silent) == ALL


def test_a_clock_that_is_a_year_ahead_closes_no_more_than_was_read(
    spark: SparkSession, silent: Lake
) -> None:
    assert closed(spark, silent, now=NOON + timedelta(days=365)).until == at("11:09:01")


def test_a_batch_closes_by_the_same_moment(spark: SparkSession, silent: Lake) -> None:
    """Also again, and after more rows."""
    whole = Lake(silent.root.parent / "whole").open_for_writing()
    received(whole, readings(LOG))
    derive(spark, whole, silver.TABLE, mode=Batch())
    close_as_batch(gold.TABLE, whole, site(spark), BY)

    derive(spark, whole, gold.TABLE, mode=Batch())
    derive(spark, whole, gold.TABLE, mode=Batch())

    assert windows(whole) == ALL
    found = last_entry(whole.table(gold.TABLE))
    assert found is not None
    assert found[1].closed_by == BY


def test_a_stream_goes_on_after_a_close(spark: SparkSession, silent: Lake) -> None:
    """Windows after it are those that they would have been, and no row of these is dropped."""
    closed(spark, silent)
    received(
        silent,
        readings("""
        batch | id | device | event_at | arrived_at
        4     | d  | d1     | 11:11:00 | 11:11:00
        5     | e  | d1     | 12:59:00 | 12:59:00
    """),
    )

    derive(spark, silent, silver.TABLE, gold.TABLE)

    assert windows(silent) == [
        *ALL[:2],
        *rows("""
        device_id | window_from | readings
        d1        | 11:10:00    | 1
    """),
        ALL[2],
    ]
    assert balance(gold.TABLE, silent).faults == []


@pytest.mark.slow
def test_what_comes_later_within_the_lateness_is_counted_and_a_backfill_brings_it_in(
    spark: SparkSession, silent: Lake
) -> None:
    """It is a row of silver; gold has closed its window, and says so until the range is computed again."""
    closed(spark, silent)
    received(
        silent,
        readings("batch | id | device | event_at | arrived_at\n4 | d | d1 | 10:52:00 | 11:30:00"),
    )
    derive(spark, silent, silver.TABLE, gold.TABLE)

    sheet = balance(gold.TABLE, silent)
    assert sheet.dropped_by_watermark == 1
    (fault,) = sheet.faults
    assert "they came after it was closed (ops: until closed)" in fault
    assert "`strandline backfill gold.device_signal_10m --since 2026-11-20T10:50:00+00:00" in fault
    assert len(answers_of(silent).silver) == 4

    backfill(spark, gold.TABLE, silent, Span(since=at("10:50:00"), until=at("10:50:01")))

    assert balance(gold.TABLE, silent).faults == []
    whole = twin(silent, "whole")
    derive(spark, whole, silver.TABLE, mode=Batch())
    close_as_batch(gold.TABLE, whole, site(spark), BY)
    derive(spark, whole, gold.TABLE, mode=Batch())
    assert windows(silent) == windows(whole)
    assert {"device_id": "d1", "window_from": "10:50:00", "readings": "2"} in windows(silent)


@pytest.mark.whole
@pytest.mark.slow
def test_a_certificate_proves_what_was_closed(spark: SparkSession, silent: Lake) -> None:
    """Both ways to compute it anew close where the live table was closed, and without that they differ."""
    closed(spark, silent)

    (certificate,) = verify([gold.TABLE], silent, Trial(splits=2, kills=1, seed=7), site(spark))

    assert certificate.differences == ()
    assert certificate.rows == len(ALL)


def test_a_rebuild_closes_what_was_closed(spark: SparkSession, silent: Lake) -> None:
    """And its checkpoint goes on from there."""
    closed(spark, silent)
    rebuild(gold.TABLE, silent, site(spark))
    promote(gold.TABLE, silent, site(spark))

    assert windows(silent) == ALL
    refuse_unsettled([silver.TABLE, gold.TABLE], silent)
    assert closed(spark, silent).report.batches == 0


def test_a_kill_before_the_batch_is_planned_leaves_no_order(
    spark: SparkSession, silent: Lake
) -> None:
    """The note is written first; without its plan it says nothing, and the same word does it all."""
    checkpoint = silent.checkpoint(gold.TABLE)
    put = Place.put

    def killed(place: Place, content: str | bytes) -> None:
        if place.parent.name == "offsets":
            raise KeyboardInterrupt
        put(place, content)

    with patch.object(Place, "put", killed), pytest.raises(KeyboardInterrupt):
        order_close(checkpoint, int(at("11:09:01").timestamp() * 1000), BY, 0)

    assert (checkpoint / CLOSED).exists()
    assert close_ordered(checkpoint) is None
    closed(spark, silent)
    assert windows(silent) == ALL


def test_a_kill_within_a_second_close_leaves_the_first_in_force(
    spark: SparkSession, silent: Lake
) -> None:
    """Its windows were emitted: a proof and a rebuild that did not know of it would take them out again."""
    closed(spark, silent, now=at("10:55:00"))
    checkpoint = silent.checkpoint(gold.TABLE)
    first, put = close_ordered(checkpoint), Place.put

    def killed(place: Place, content: str | bytes) -> None:
        if place.parent.name == "offsets":
            raise KeyboardInterrupt
        put(place, content)

    with patch.object(Place, "put", killed), pytest.raises(KeyboardInterrupt):
        order_close(checkpoint, int(at("11:09:01").timestamp() * 1000), "another", 0)

    assert first is not None
    assert close_ordered(checkpoint) == first
    closed(spark, silent)
    found = close_ordered(checkpoint)
    assert found is not None
    assert found.until_ms > first.until_ms


def test_a_plan_that_a_power_cut_left_empty_is_no_reason_to_forget_a_close(
    spark: SparkSession, silent: Lake
) -> None:
    closed(spark, silent)
    checkpoint = silent.checkpoint(gold.TABLE)
    found = close_ordered(checkpoint)
    assert found is not None

    (checkpoint / "offsets" / str(found.batch + 1)).put("")

    assert close_ordered(checkpoint) == found
    (checkpoint / "offsets" / str(found.batch)).put("v1\n{}")
    assert close_ordered(checkpoint) is None


def test_a_batch_whose_rows_have_passed_the_order_is_not_put_down_to_it(
    spark: SparkSession, lake: Lake
) -> None:
    """Nor is an order that says no more than the one before it."""
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE, mode=Batch())
    close_as_batch(gold.TABLE, lake, site(spark), BY)
    close_as_batch(gold.TABLE, lake, site(spark), "another")
    derive(spark, lake, gold.TABLE, mode=Batch())
    found = last_entry(lake.table(gold.TABLE))
    assert found is not None
    assert found[1].closed_by == BY

    received(lake, readings("batch | id | event_at | arrived_at\n4 | d | 14:00:00 | 14:00:00"))
    derive(spark, lake, silver.TABLE, gold.TABLE, mode=Batch())

    found = last_entry(lake.table(gold.TABLE))
    assert found is not None
    assert found[1].closed_by is None


def test_a_lake_with_a_closed_table_says_so_to_programs_of_before(
    spark: SparkSession, silent: Lake
) -> None:
    """They know no such order, and their rebuild would take the last windows back."""
    assert CLOSES not in forms(silent.formats)

    closed(spark, silent)

    assert forms(silent.formats)[CLOSES]["number"] == 1


def sliding(counts: DataFrame) -> DataFrame:
    """Add up counts in windows of twenty minutes, one every five."""
    found = counts.groupBy(F.window("began", "20 minutes", "5 minutes")).agg(F.sum("n").alias("n"))
    return found.select(
        F.col("window.start").alias("since"), F.col("window.end").alias("until"), "n"
    )


ABOVE = Windowed(
    name="above",
    reads=(COUNTS,),
    transform=sliding,
    key=("since",),
    window="20 minutes",
    window_from="since",
    closes_at="until",
)


def test_a_table_above_one_that_waits_is_closed_no_further_than_its_open_windows_begin(
    spark: SparkSession, lake: Lake
) -> None:
    """What the lower one emits later begins before the moment up to which it is closed itself."""
    log: Log = {
        CLICKS: (
            FIELDS,
            """
            batch | k | site | at
            1     | a | x    | 11:41:00
            1     | b | x    | 11:52:00
            2     | c | x    | 12:30:00
            """,
        )
    }
    put(lake, log, "1")
    derive(spark, lake, CHOSEN, COUNTS, ABOVE)
    now = at("11:55:00")

    assert closed(spark, lake, COUNTS, now).until == now
    assert closed(spark, lake, ABOVE, now).until == at("11:45:00")

    put(lake, log, "2")
    derive(spark, lake, CHOSEN, COUNTS, ABOVE)
    assert balance(COUNTS, lake).faults == []
    sheet = balance(ABOVE, lake)
    assert sheet.read == 2
    assert sheet.dropped_by_watermark == 0


def test_what_is_dropped_later_than_a_close_is_not_put_down_to_it(
    spark: SparkSession, lake: Lake
) -> None:
    """Nor is the order named once rows have moved the watermark beyond it."""
    log: Log = {
        CLICKS: (
            FIELDS,
            """
            batch | k | site | at
            1     | a | x    | 09:00:00
            2     | b | x    | 12:00:00
            3     | c | x    | 11:05:00
            """,
        )
    }
    put(lake, log, "1")
    derive(spark, lake, CHOSEN, COUNTS)
    closed(spark, lake, COUNTS)
    assert [each for each in balance(COUNTS, lake).said if BY in each]

    for number in "23":
        put(lake, log, number)
        derive(spark, lake, CHOSEN, COUNTS)

    sheet = balance(COUNTS, lake)
    assert sheet.dropped_by_watermark == 1
    (fault,) = sheet.faults
    assert "came later than its `lateness` says" in fault
    assert not [each for each in sheet.said if BY in each]


def test_a_kill_before_the_planned_batch_is_run_leaves_it_to_the_next_start(
    spark: SparkSession, silent: Lake
) -> None:
    order_close(silent.checkpoint(gold.TABLE), int(at("11:09:01").timestamp() * 1000), BY, 0)

    derive(spark, silent, gold.TABLE)

    assert windows(silent) == ALL
    found = last_entry(silent.table(gold.TABLE))
    assert found is not None
    assert found[1].closed_by == BY


@pytest.mark.slow
def test_a_running_stream_hands_the_table_over_and_goes_on(spark: SparkSession, lake: Lake) -> None:
    received(lake, readings(LOG))
    with served(lake, site(spark)) as stream:
        stream.until(lambda: lake.exists(gold.TABLE) and has_caught_up(lake, silver.TABLE))
        stream.until(lambda: has_caught_up(lake, gold.TABLE))
        closed(spark, lake)
        assert windows(lake) == ALL
        received(
            lake,
            readings(
                "batch | id | device | event_at | arrived_at\n4 | d | d1 | 12:40:00 | 12:40:00"
            ),
        )
        stream.until(lambda: has_caught_up(lake, silver.TABLE) and has_caught_up(lake, gold.TABLE))
        assert stream.host.errors == {}

    assert windows(lake) == ALL
    assert balance(gold.TABLE, lake).faults == []


JOINED: Log = {
    user_actions.TABLE: (
        user_actions.FIELDS,
        """
        batch | action_id | user_id | action | event_at
        1     | a         | u1      | login  | 09:00:00
        2     | b         | u1      | login  | 11:00:00
        """,
    ),
    user_confirmations.TABLE: (
        user_confirmations.FIELDS,
        """
        batch | confirmation_id | action_id | user_id | event_at
        1     | ca              | a         | u1      | 09:01:00
        """,
    ),
}


def joined(lake: Lake) -> list[Row]:
    table = DeltaTable(lake.table(confirmed_logins.TABLE)).to_pyarrow_table()
    return [
        {"action_id": row["action_id"], "is_confirmed": row["is_confirmed"]}
        for row in sorted(shown(table.to_pylist()), key=str)
    ]


def test_a_join_whose_other_side_is_silent_emits_what_waits_for_it(
    spark: SparkSession, lake: Lake
) -> None:
    """The slower side holds the watermark: nothing else would ever emit the log-in that was not confirmed."""
    for number in "12":
        put(lake, JOINED, number)
    derive(spark, lake, confirmed_logins.TABLE)
    assert [row["action_id"] for row in joined(lake)] == ["a"]

    done = closed(spark, lake, confirmed_logins.TABLE)

    assert done.until == at("11:02:01.001")
    assert joined(lake) == rows("""
        action_id | is_confirmed
        a         | True
        b         | False
    """)


CLICKED: Log = {
    CLICKS: (
        FIELDS,
        """
        batch | k | site | at
        1     | a | x    | 09:00:00
        1     | a | x    | 09:02:00
        2     | b | x    | 11:00:00
        2     | b | x    | 11:03:00
        """,
    )
}


def visits(lake: Lake) -> list[Row]:
    found = DeltaTable(lake.table(VISITS)).to_pyarrow_table().to_pylist()
    return sorted(
        ({name: row[name] for name in ("k", "ended", "count")} for row in shown(found)), key=str
    )


def test_a_session_ends_in_a_stream_and_in_a_batch(spark: SparkSession, lake: Lake) -> None:
    """Each lasts an hour at most, so an hour after the newest click all are over."""
    whole = Lake(lake.root.parent / "whole").open_for_writing()
    for each in (lake, whole):
        for number in "12":
            put(each, CLICKED, number)
    derive(spark, lake, VISITS)
    assert [row["k"] for row in visits(lake)] == ["a"]

    assert closed(spark, lake, VISITS).until == NOON
    close_as_batch(VISITS, whole, site(spark), BY)
    derive(spark, whole, VISITS, mode=Batch())

    assert visits(lake) == visits(whole)
    assert visits(lake) == rows("""
        k | ended    | count
        a | 09:06:00 | 2
        b | 11:07:00 | 2
    """)


MESSAGES: Log = {
    dhcp_events.TABLE: (
        arrived(dhcp_events.FIELDS),
        """
        batch | dhcp_id | kind | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
        1     | 1       | ack  | m1  | d1        | a  | 3600          | 09:00:00 | 09:00:00    | 0          | 1
        1     | 2       | ack  | m2  | d2        | b  | 36000         | 09:30:00 | 09:30:00    | 0          | 2
        """,
    )
}


def holds(lake: Lake) -> list[Row]:
    found = DeltaTable(lake.table(ip_holds.TABLE)).to_pyarrow_table().to_pylist()
    return sorted(
        ({name: row[name] for name in ("ip", "held_until", "ended_by")} for row in shown(found)),
        key=str,
    )


def test_a_fold_decides_up_to_the_clock_in_a_stream_and_in_a_batch(
    spark: SparkSession, lake: Lake
) -> None:
    """Nothing says how long it waits, so a day after the newest event is the most."""
    whole = Lake(lake.root.parent / "whole").open_for_writing()
    for each in (lake, whole):
        put(each, MESSAGES, "1")
    derive(spark, lake, ip_holds.TABLE)
    assert holds(lake) == []

    assert closed(spark, lake, ip_holds.TABLE).until == NOON
    close_as_batch(ip_holds.TABLE, whole, site(spark), BY)
    derive(spark, whole, ip_holds.TABLE, mode=Batch())

    assert holds(lake) == holds(whole)
    assert holds(lake) == rows("""
        ip | held_until | ended_by
        a  | 10:00:00   | expired
        b  | -          | -
    """)
    a_year_later = NOON + timedelta(days=365)
    assert closes_at(ip_holds.TABLE, whole, a_year_later) == at("09:30:01") + timedelta(days=1)


def views(lake: Lake) -> dict[str, int]:
    """Return the views that the windows count, by the start of the window."""
    table = DeltaTable(lake.table(COUNTED)).to_pyarrow_table().to_pylist()
    return {f"{row['window_from']:%H:%M}": row["views"] for row in sorted(table, key=str)}


@pytest.mark.slow
def test_windows_that_batches_compute_are_closed_too_and_change_with_what_comes_later(
    spark: SparkSession, lake: Lake
) -> None:
    """They keep no state that could refuse a row."""
    moves = "1 | 0 | d1 | lima | m | o | 08:00:00 | 08:00:00 | 0 | 0"
    seen = ("1 | v0 | d1 | 09:00:00", "1 | v1 | d1 | 11:00:00", "2 | v2 | d1 | 10:55:00")
    log: Log = {
        VIEWS: text(seen, VIEWS),
        device_inventory.TABLE: text([moves], device_inventory.TABLE),
    }
    whole = Lake(lake.root.parent / "whole").open_for_writing()
    for each in (lake, whole):
        put(each, log, "1")
    derive(spark, lake, devices.TABLE, COUNTED)
    first = {f"{hour:02d}:{minute}0": 1 for hour, minute in ((8, n) for n in range(1, 5))}
    assert views(lake) == {**first}

    assert closed(spark, lake, COUNTED).until == NOON
    derive(spark, whole, devices.TABLE, mode=Batch())
    close_as_batch(COUNTED, whole, site(spark), BY)
    derive(spark, whole, COUNTED, mode=Batch())

    assert len(views(lake)) == 12
    assert views(lake) == views(whole)
    found = last_entry(lake.table(COUNTED))
    assert found is not None
    assert found[1].closed_by == BY
    assert closed(spark, lake, COUNTED).report.batches == 0
    put(lake, log, "2")
    derive(spark, lake, COUNTED)
    assert views(lake)["10:10"] == 2
    assert views(lake)["11:00"] == 1


@pytest.mark.parametrize(
    ("table", "is_one"),
    [(gold.TABLE, True), (confirmed_logins.TABLE, True), (silver.TABLE, False)],
)
def test_only_tables_that_emit_over_time_wait(table: Table, *, is_one: bool) -> None:
    assert waits(table) is is_one


def test_a_table_that_read_nothing_is_not_closed(spark: SparkSession, lake: Lake) -> None:
    received(
        lake,
        readings(
            "batch | id | payload | event_at | arrived_at\n1 | a | no object | 09:00:00 | 09:00:00"
        ),
    )
    derive(spark, lake, silver.TABLE, gold.TABLE)

    assert closes_at(gold.TABLE, lake, NOON) is None
    assert closed(spark, lake).until is None
