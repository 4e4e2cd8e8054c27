"""A row is joined to the dimension as of its event time, also if the dimension changes later."""

import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructType, TimestampType

from fleet.gold.device_signal_10m import TABLE
from fleet.silver import device_inventory, device_telemetry, devices
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.batch import event_joins
from strandline.engine.flow.batch.event_joins import Again
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.replace_rows import changes
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import LOOKED_AGAIN, Entry, entries
from strandline.engine.lake.place import Place
from tests.support.literal import TWO, in_every_way, put
from tests.support.modes import derive
from tests.support.rows import rows, shown
from tests.support.shapes import arrived

READING = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("value", DecimalType(18, 4))
    .add("event_at", TimestampType())
)
READINGS = """
    batch | event_id | device_id | signal | value | event_at
    1     | a        | d1        | t      | 1     | 09:00:00
    1     | b        | d2        | t      | 1     | 09:00:00
    2     | c        | d1        | t      | 2     | 09:30:00
    3     | d        | d1        | t      | 3     | 11:00:00
    4     | e        | d1        | t      | 3     | 13:00:00
"""
INVENTORY = """
    batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
    1     | 1         | d1        | berlin | m1    | ann   | 08:00:00 | 08:00:00    | 0          | 0
    3     | 2         | d1        | lima   | m1    | bob   | 10:00:00 | 10:00:00    | 0          | 1
    4     | 3         | d1        | osaka  | m1    | cleo  | 09:20:00 | 10:10:00    | 0          | 2
"""
SHOWN = ("device_id", "window_from", "site", "owner")
WINDOWS = """
    device_id | window_from | site   | owner
    d1        | 09:00:00    | berlin | ann
    d1        | 09:30:00    | osaka  | cleo
    d1        | 11:00:00    | lima   | bob
    d2        | 09:00:00    | -      | -
"""


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_a_window_has_the_site_of_its_device_however_both_logs_are_split(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last change comes long after its window was emitted."""
    log = {
        device_telemetry.TABLE: (READING, READINGS),
        device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY),
    }

    live = in_every_way(spark, tmp_path, TABLE, log, (devices.TABLE,), TWO)

    assert [{name: row[name] for name in SHOWN} for row in live] == rows(WINDOWS)


def test_without_a_dimension_its_columns_are_null_until_it_exists(
    spark: SparkSession, lake: Lake
) -> None:
    """Three tables work without the fourth, which may come at any time."""
    telemetry = {device_telemetry.TABLE: (READING, READINGS)}
    for batch in "1234":
        put(lake, telemetry, batch)
    derive(spark, lake, TABLE)
    before = shown(DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist(), *SHOWN)
    inventory = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY)}
    for batch in "134":
        put(lake, inventory, batch)

    derive(spark, lake, devices.TABLE)
    waiting = balance(TABLE, lake).waiting
    derive(spark, lake, TABLE)
    derive(spark, lake, TABLE)

    after = shown(DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist(), *SHOWN)
    assert {row["site"] for row in before} == {"-"}
    assert sorted(after, key=str) == rows(WINDOWS)
    assert waiting > 0
    assert balance(TABLE, lake).waiting == 0
    assert balance(TABLE, lake).faults == []
    repeated = [entry for _, entry in entries(lake.table(TABLE)) if entry.mode == LOOKED_AGAIN]
    assert [(entry.came, entry.gone) for entry in repeated] == [(3, 3)], "and once is enough"

    again = Again(spark, TABLE, lake)
    assert again.look() is None
    looked_long_ago(spark, lake)
    assert again.look() is not None, "a backfill may have looked up before the last change"
    assert again.look() is None


@pytest.mark.whole
def test_intervals_that_ended_before_the_rows_of_a_batch_are_not_read(
    spark: SparkSession, lake: Lake
) -> None:
    """Their number only grows; here their file is gone, and no read fails."""
    inventory = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY)}
    for batch in "134":
        put(lake, inventory, batch)
    derive(spark, lake, devices.TABLE)
    (ended,) = ended_files(lake.table(devices.TABLE))
    ended.remove()

    telemetry = {device_telemetry.TABLE: (READING, READINGS)}
    for batch in "34":
        put(lake, telemetry, batch)
    derive(spark, lake, TABLE)

    live = shown(DeltaTable(lake.table(TABLE)).to_pyarrow_table().to_pylist(), *SHOWN)
    assert live == rows("""
        device_id | window_from | site | owner
        d1        | 11:00:00    | lima | bob
    """)


def ended_files(path: Place) -> list[Place]:
    """Return the files of intervals without an open one."""
    actions: Any = DeltaTable(path).get_add_actions(flatten=True)
    files = zip(actions["path"], actions["null_count.valid_until"], strict=True)
    return [path / unquote(file.as_py()) for file, open_rows in files if not open_rows.as_py()]


def looked_long_ago(spark: SparkSession, lake: Lake) -> None:
    """Commit like a backfill in another process that changes nothing."""
    delta_commit.Commit(spark, lake.table(TABLE)).commit(long_ago().encoded())


def long_ago() -> Entry:
    """Return the entry of a backfill that began before the dimension existed."""
    return Entry(
        table=TABLE.id,
        mode="backfill",
        stream="backfill",
        batch=0,
        source=device_telemetry.TABLE.id,
        since="2026-11-20",
        until="2026-11-21",
        looked={devices.TABLE.id: 0},
    )


@pytest.mark.whole
def test_rows_that_a_backfill_commits_during_a_look_up_are_looked_up_as_well(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backfill need not wait, and by the look-up's own entry its rows would count as correct."""
    for batch in "14":
        log = {
            device_telemetry.TABLE: (READING, READINGS),
            device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY),
        }
        put(lake, log, batch)
    derive(spark, lake, devices.TABLE, TABLE)
    looked_long_ago(spark, lake)
    path, known, stuck = lake.table(TABLE), DeltaTable(lake.table(TABLE)), list[bool]()
    before = shown(known.to_pyarrow_table().to_pylist())

    def backfilled() -> None:
        commit = delta_commit.Commit(spark, path)
        rows = commit.take_out([*commit.files()])
        commit.write(rows.withColumn("site", F.lit("nowhere")))
        commit.commit(long_ago().encoded())

    def interrupted(new: DataFrame, rows: DataFrame) -> DataFrame:
        if not stuck:
            thread = threading.Thread(target=backfilled, daemon=True)
            thread.start()
            thread.join(60)  # it need not wait; if it must, it waits for ever
            stuck.append(thread.is_alive())
        return changes(new, rows)

    monkeypatch.setattr(event_joins, "changes", interrupted)
    again = Again(spark, TABLE, lake)

    assert again.look() is not None

    assert stuck == [False]
    assert shown(DeltaTable(path).to_pyarrow_table().to_pylist()) == before
    assert again.look() is None
