"""State has only rows that may still matter: what the watermark has passed is gone."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.gold import confirmed_logins, ip_holds
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from fleet.silver import dhcp_events, user_actions, user_confirmations
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from tests.support.events import readings, received
from tests.support.literal import put, written
from tests.support.modes import derive
from tests.support.proofs import Times
from tests.support.shapes import arrived

pytestmark = pytest.mark.whole

MESSAGE = arrived(dhcp_events.FIELDS)


def state(spark: SparkSession, lake: Lake, table: Table, **options: str) -> int:
    """Return how many rows a table's stream remembers, as Spark's own reader of state finds them."""
    reader = spark.read.format("statestore").options(**options)
    return reader.load(str(lake.checkpoint(table))).count()


@pytest.mark.slow
def test_copies_and_windows_are_forgotten_when_the_watermark_has_passed(
    spark: SparkSession, lake: Lake
) -> None:
    """A hundred readings of two windows, a bad one, and then a clock three hours later."""
    morning = "\n".join(f"0 | e{n} | s{n % 5} | 09:{n % 20:02}:00 | 09:20:00" for n in range(100))
    head = "batch | id | signal | event_at | arrived_at"
    received(lake, readings(f"{head}\n{morning}\n0 | - | s | 09:00:00 | 09:20:00"))
    derive(spark, lake, silver.TABLE, gold.TABLE)
    before = [state(spark, lake, table) for table in (silver.TABLE, gold.TABLE)]

    for clock in ("12:20:00", "12:20:01"):  # silver forgets when the next rows come
        received(lake, readings(f"{head}\n0 | {clock} | s | {clock} | {clock}"))
        derive(spark, lake, silver.TABLE, gold.TABLE)

    after = [state(spark, lake, table) for table in (silver.TABLE, gold.TABLE)]
    assert before == [101, 10]
    assert after == [2, 1]


@pytest.mark.slow
def test_log_ins_are_forgotten_when_nothing_can_confirm_them_any_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both sides of a join remember, and both must forget."""
    lake = Lake(tmp_path).open_for_writing()
    log = {
        user_actions.TABLE: (
            user_actions.FIELDS,
            """
            batch | action_id | user_id | action | event_at
            1     | a         | u1      | login  | 09:00:00
            1     | b         | u1      | login  | 09:01:00
            2     | clock     | u9      | login  | 12:00:00
            """,
        ),
        user_confirmations.TABLE: (
            user_confirmations.FIELDS,
            """
            batch | confirmation_id | action_id | user_id | event_at
            1     | x               | other     | u1      | 09:00:30
            2     | clock           | none      | u9      | 12:00:00
            """,
        ),
    }
    found = []
    for batch in ("1", "2"):
        put(lake, log, batch)
        derive(spark, lake, confirmed_logins.TABLE)
        sides = ("left", "right")
        found.append([state(spark, lake, confirmed_logins.TABLE, joinSide=s) for s in sides])

    assert found == [[2, 1], [1, 1]]


@pytest.mark.prove
@pytest.mark.slow
def test_a_flood_of_discovers_leaves_nothing_behind_and_loses_no_hold(
    spark: SparkSession, tmp_path: Path, times: Times
) -> None:
    """Thousands of them about addresses drawn at random, with a hundred real holds in between."""
    lake = Lake(tmp_path).open_for_writing()
    log = {dhcp_events.TABLE: (MESSAGE, "batch | ip\n1 | -")}
    put(lake, log, "0")  # makes the table
    hour = "timestampadd(SECOND, id % 3600, timestamp'2026-11-20 09:00:00')"
    flood = spark.range(times(20_000, 200_000)).selectExpr(
        "'discover' AS kind",
        "format_string('m%d', id) AS mac",
        "concat_ws('.', 10, xxhash64(id) & 255, xxhash64(-id) & 255, id & 255) AS ip",
        f"{hour} AS event_at",
    )
    holds = spark.range(100).selectExpr(
        "'ack' AS kind",
        "format_string('real%d', id) AS mac",
        "format_string('192.168.0.%d', id) AS ip",
        f"{hour} AS event_at",
        "36000L AS lease_seconds",
    )
    clock = spark.range(1).selectExpr(
        "'discover' AS kind", "timestamp'2026-11-20 12:00:00' AS event_at"
    )
    written(spark, lake, dhcp_events.TABLE, MESSAGE, flood.unionByName(holds, True))
    derive(spark, lake, ip_holds.TABLE)
    during = state(spark, lake, ip_holds.TABLE, stateVarName="kept")
    written(spark, lake, dhcp_events.TABLE, MESSAGE, clock)
    derive(spark, lake, ip_holds.TABLE)

    after = state(spark, lake, ip_holds.TABLE, stateVarName="kept")
    found = DeltaTable(lake.table(ip_holds.TABLE)).to_pyarrow_table().to_pylist()
    assert (during, after) == (100, 100)
    assert sorted(row["mac"] for row in found) == sorted(f"real{n}" for n in range(100))
    assert all(row["held_until"] is None for row in found)
