"""What a silver function loses or multiplies is counted in the entry, in every mode, and is a fault of the balance."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import device_telemetry as silver
from strandline.core.table import Judged
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.explain_silver import explain_spot
from strandline.engine.ask.locate import Spot, Verdict, World
from strandline.engine.flow.batch.batch_accounting import mark_of, mark_of_rows, watch_of
from strandline.engine.lake.commit.delta_commit import rows_now
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, Through, last_entry
from strandline.engine.lake.log.log_actions import appended, table_id
from strandline.engine.lake.spark_checkpoint import WHOLE, Planned, Position
from strandline.engine.proof.verify import function_faults
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from tests.support.events import TABLE, commits, readings, received
from tests.support.interrupted import forget, kill_at
from tests.support.modes import WAYS, derive
from tests.support.rows import NOON, at

LOG = readings("""
    batch | id | signal      | event_at
    0     | a  | temperature | 09:00:00
    0     | b  | humidity    | 09:01:00
    0     | a  | temperature | 09:00:00
    1     | c  | humidity    | 09:02:00
    1     | d  | temperature | 09:03:00
    1     | -  | temperature | 09:04:00
""")
"""Four good readings, a copy of one, and one without a key."""

Function = Callable[[DataFrame], DataFrame]
LONG = pytest.mark.prove(alone="ten seconds in each mode")
"""The suite takes the function that does both, and random chains of all kinds (tests/properties/test_conserved.py)."""


def losing(events: DataFrame) -> DataFrame:
    """Leave the readings of one signal out."""
    return silver.device_telemetry(events).where("signal <> 'humidity'")


def joined(events: DataFrame) -> DataFrame:
    """Keep the readings that have a partner."""
    known = events.sparkSession.sql("SELECT 'temperature' AS signal")
    return silver.device_telemetry(events).join(F.broadcast(known), "signal", "inner")


def making(events: DataFrame) -> DataFrame:
    """Make two rows out of a reading, of which the second has a key of its own."""
    twice = silver.device_telemetry(events).withColumn("n", F.explode(F.array(F.lit(1), F.lit(2))))
    return twice.withColumn(
        "event_id",
        F.when(F.col("n") == 1, F.col("event_id")).otherwise(F.concat("event_id", F.lit("+"))),
    ).drop("n")


def both(events: DataFrame) -> DataFrame:
    """Lose as many readings as are made: the sum alone would show nothing."""
    rows = silver.device_telemetry(events)
    kept = rows.where("signal <> 'humidity'")
    again = rows.where("event_id IN ('a', 'd') AND _offset IN (0, 4)")
    return kept.unionByName(again.withColumn("event_id", F.concat("event_id", F.lit("+"))))


def run(spark: SparkSession, root: Path, way: str, function: Function) -> tuple[Judged, Lake]:
    """Run silver with another function in one way."""
    table = replace(silver.TABLE, transform=function)
    lake = Lake(root / way).open_for_writing()
    WAYS[way](spark, lake, commits(LOG), [table])
    return table, lake


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("way", ["batch", "commit by commit"])
@pytest.mark.parametrize(
    ("function", "lost", "made", "good", "copies", "held"),
    [
        (both, 2, 2, 4, 1, 1),
        pytest.param(*(losing, 2, 0, 2, 1, 1), marks=LONG),
        pytest.param(*(joined, 2, 0, 2, 1, 1), marks=LONG),
        pytest.param(*(making, 0, 6, 8, 3, 1), marks=LONG),
    ],
)
def test_what_a_function_loses_or_makes_is_a_line_of_its_own_and_a_fault(  # noqa: PLR0913, PLR0917  # a row of the table above
    spark: SparkSession,
    tmp_path: Path,
    way: str,
    function: Function,
    lost: int,
    made: int,
    good: int,
    copies: int,
    held: int,
) -> None:
    """It was booked as copies, and the books were balanced."""
    table, lake = run(spark, tmp_path, way, function)
    sheet = balance(table, lake)
    assert not sheet.balanced
    assert (sheet.read, sheet.good, sheet.duplicates) == (6, good, copies)
    assert sum(sheet.quarantined.values()) == held
    assert (sheet.lost_by_function, sheet.made_by_function) == (lost, made)
    newest = last_entry(lake.table(table))
    assert newest is not None
    assert newest[1].read + newest[1].made_by_function == newest[1].accounted
    named = " ".join(sheet.faults)
    assert ("gave no row" in named) == bool(lost)
    assert ("more rows than records" in named) == bool(made)


def test_an_entry_adds_up_with_what_its_function_lost_and_made_apart_from_each_other() -> None:
    """As many lost as made are two faults, and no row less or more."""
    begun = Entry(table="silver.t", mode="batch", stream="s", batch=0, source="", read=10)

    entry = begun.settled(good=5, held={"late": 1}, dropped=0, through=Through(lost=3, made=3))

    assert (entry.duplicates, entry.is_accounted) == (4, True)
    assert not replace(entry, lost_by_function=0).is_accounted


@pytest.mark.slow
def test_the_records_of_a_snapshot_and_of_a_commit_beside_it_are_looked_at_together(
    spark: SparkSession, lake: Lake
) -> None:
    """A stream that begins with a snapshot may read what was committed meanwhile; a loss in either is found."""
    received(lake, LOG)
    path = lake.table(TABLE)
    whole = Planned(
        number=0,
        start={},
        end={table_id(path): Position(2, WHOLE)},
        watermark_ms=0,
        late_ms=0,
        whole=True,
    )
    inputs = {TABLE.id: whole.input(path)}
    assert [(version, bool(part.files)) for version, part in inputs[TABLE.id]] == [
        (1, False),
        (2, True),
    ]

    watch = watch_of(spark, silver.TABLE, lake, "a stream", inputs)

    assert sorted(row["_offset"] for row in watch.records().collect()) == [0, 1, 2, 3, 4, 5]
    assert watch.read().mark[0] == 6


@pytest.mark.whole
@pytest.mark.slow
def test_the_places_of_a_range_are_known_without_reading_them(
    spark: SparkSession, lake: Lake
) -> None:
    """Our hash is Spark's; where offsets are missing, the files are read."""
    received(lake, LOG)
    path = lake.table(TABLE)
    parts = [part for version in (1, 2) if (part := appended(path, version))]
    assert [dict(part.places or {}) for part in parts] == [
        {"device-telemetry/0": (0, 3)},
        {"device-telemetry/0": (3, 6)},
    ]
    known = mark_of_rows(rows_now(spark, TABLE, lake))
    gaps = [replace(part, places=None) for part in parts]

    def never() -> DataFrame:
        raise NotImplementedError

    assert known[0] == 6
    assert known[1] != 0
    assert mark_of(spark, parts, never) == mark_of(spark, gaps, never) == known


@pytest.mark.whole
@pytest.mark.slow
def test_a_fault_is_counted_once_however_a_batch_is_killed_named_by_why_and_healed_by_a_backfill(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit, and between the commit and Spark's own."""
    table = replace(silver.TABLE, transform=losing)
    received(lake, LOG)
    with monkeypatch.context() as patch:
        kill_at(patch, table, 1)
        with pytest.raises(StreamingQueryException):
            derive(spark, lake, table)
    derive(spark, lake, table)
    forget(lake, table, 1)
    derive(spark, lake, table)

    sheet = balance(table, lake)
    assert (sheet.lost_by_function, sheet.made_by_function, sheet.duplicates) == (2, 0, 1)
    assert not sheet.balanced
    finding, row = explain_spot(table, Spot("device-telemetry", 0, 1), World(lake=lake, now=NOON))
    assert (finding.verdict, row) == (Verdict.LEFT_OUT, None)
    assert "gave no row for 2 records" in finding.sentence
    assert [*function_faults(table, {"one batch": lake})] == [
        "silver.device_telemetry: in one batch its function gave no row for 2 records"
    ]

    received(
        lake,
        readings("""
        batch | id | signal      | event_at
        2     | z  | temperature | 14:00:00
        3     | y  | temperature | 14:00:01
    """),
    )
    derive(spark, lake, table)
    backfill(spark, silver.TABLE, lake, Span(since=at("09:00:00"), until=at("09:30:00")))

    after = balance(silver.TABLE, lake)
    assert (after.faults, after.lost_by_function, after.duplicates, after.healed) == ([], 0, 1, 2)
    backfill(spark, table, lake, Span(since=at("09:00:00"), until=at("09:30:00")))
    again = balance(silver.TABLE, lake)
    assert (again.lost_by_function, again.duplicates, again.good) == (2, 1, 4)
