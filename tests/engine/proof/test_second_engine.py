"""DuckDB recomputes a table in SQL: it finds faults of our own code, and says which words it lacks."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry, user_actions, user_confirmations
from strandline.core.errors import DefinitionError
from strandline.core.modes import Batch
from strandline.core.table import Table
from strandline.engine.flow import plan
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import certificate
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.duckdb_words import in_duckdb
from strandline.engine.proof.second_engine import recompute
from strandline.sql_text import understood
from tests.cli.inside import strandline
from tests.support import fleet_in_sql
from tests.support.literal import Log, put
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.shapes import arrived

READINGS = """
    batch | event_id | device_id | signal | value   | event_at        | _arrived_at
    1     | a        | d1        | t      | 1.1     | 09:00:00        | 09:00:01
    1     | b        | d1        | t      | 2.2     | 09:09:59.999999 | 09:10:00
    1     | c        | d1        | t      | 5       | 09:10:00        | 09:10:01
    2     | e        | d2        | t      | -3.5    | 09:04:00        | 10:00:02
    3     | g        | d1        | t      | 7       | 10:25:00        | 10:25:00
"""
ACTIONS = """
    batch | action_id | user_id | action | event_at
    1     | a         | u1      | login  | 09:00:00
    2     | b         | u1      | login  | 09:40:00
    4     | clock     | u9      | logout | 12:00:00
"""
CONFIRMATIONS = """
    batch | confirmation_id | action_id | user_id | event_at
    1     | other           | none      | u1      | 09:00:00
    2     | cb              | b         | u1      | 09:41:00
    3     | ca              | a         | u1      | 09:01:00
    4     | clock           | none      | u9      | 12:00:00
"""
WINDOWS: Log = {device_telemetry.TABLE: (arrived(device_telemetry.FIELDS), READINGS)}
JOINS: Log = {
    user_actions.TABLE: (user_actions.FIELDS, ACTIONS),
    user_confirmations.TABLE: (user_confirmations.FIELDS, CONFIRMATIONS),
}


def certified(table: Table, lake: Lake) -> Certificate:
    return recompute(table, lake, lambda: NOON, lambda _: None)


def in_batch(spark: SparkSession, lake: Lake, table: Table, log: Log) -> None:
    for number in "1234":
        put(lake, log, number)
    derive(spark, lake, table, mode=Batch())


def in_steps(spark: SparkSession, lake: Lake, table: Table, log: Log) -> None:
    for number in "1234":
        put(lake, log, number)
        derive(spark, lake, table)


def test_a_certificate_names_its_instrument_and_has_a_file_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The columns that a function in Python adds are not compared, and named."""
    lake = Lake(tmp_path).open_for_writing()
    in_batch(spark, lake, fleet_in_sql.SIGNALS, WINDOWS)

    found = certified(fleet_in_sql.SIGNALS, lake)

    assert (found.equal, found.rows) == (True, 2)
    assert found.instrument.startswith("DuckDB 1.")
    assert found.without == ("site", "model", "owner")
    assert certificate.kept(fleet_in_sql.SIGNALS, lake, by=certificate.SECOND) == found
    assert certificate.kept(fleet_in_sql.SIGNALS, lake) is None
    assert certificate.status(fleet_in_sql.SIGNALS, lake) == "equal by DuckDB"


@pytest.mark.slow
def test_a_fault_planted_in_our_windows_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is not final is emitted, in every mode alike: two runs of our own code would be equal."""

    def not_waiting(rows: DataFrame, *_: object) -> DataFrame:
        return rows

    lake = Lake(tmp_path).open_for_writing()
    monkeypatch.setattr(plan, "final", not_waiting)
    in_batch(spark, lake, fleet_in_sql.SIGNALS, WINDOWS)

    found = certified(fleet_in_sql.SIGNALS, lake)

    assert not found.equal
    assert "2 rows of the live table are not what DuckDB computes, and 0" in found.differences[0]


@pytest.mark.slow
def test_a_fault_planted_in_our_join_of_streams_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State that does not wait for what is late by less than an hour gives up on a log-in whose confirmation was admitted."""

    def hasty(rows: DataFrame, time: str, _: object) -> DataFrame:
        return rows.withWatermark(time, "0 milliseconds")

    sound, faulty = (Lake(tmp_path / each).open_for_writing() for each in ("sound", "faulty"))
    in_steps(spark, sound, fleet_in_sql.LOGINS, JOINS)
    monkeypatch.setattr(plan, "watermarked", hasty)
    in_steps(spark, faulty, fleet_in_sql.LOGINS, JOINS)

    assert certified(fleet_in_sql.LOGINS, sound).equal
    found = certified(fleet_in_sql.LOGINS, faulty)

    assert not found.equal
    assert any("'ca'" in line and "only by DuckDB" in line for line in found.differences)


LACKING = {
    "percentile(value, 0.95)": "percentile",
    "approx_count_distinct(value)": "approx_count_distinct",
    "max(CASE WHEN signal RLIKE 'a+' THEN 1 END)": "RLIKE",
    "stddev(value)": "STDDEV",
    "avg(value * 2.5)": "digits",
    "sum(value / 3)": "digits",
}


@pytest.mark.parametrize(("column", "word"), LACKING.items(), ids=LACKING)
def test_a_word_that_duckdb_lacks_is_named(column: str, word: str) -> None:
    """None is taken for one that is near."""
    statement = understood(f"SELECT device_id, {column} AS x FROM {{readings}} GROUP BY device_id")  # noqa: S608  # a test's own text
    kinds = {"device_id": "VARCHAR", "signal": "VARCHAR", "value": "DECIMAL(14,4)"}

    with pytest.raises(DefinitionError, match="DuckDB lacks") as refused:
        in_duckdb(statement, {"source_0": kinds})

    assert word.lower() in refused.value.message.lower()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (device_signal_10m.TABLE, "is not in SQL"),
        (device_telemetry.TABLE, "is not in SQL"),
        (replace(fleet_in_sql.SCORES, rows="x", key=("connection_id", "_item")), "rows of a list"),
    ],
    ids=["python", "silver", "list"],
)
def test_a_table_of_more_than_a_select_is_refused(table: Table, why: str, tmp_path: Path) -> None:
    """With the verb that recomputes any."""
    with pytest.raises(DefinitionError, match=why):
        certified(table, Lake(tmp_path))


def test_the_verb_ends_with_2_where_duckdb_cannot(tmp_path: Path) -> None:
    """The example's table of this name is in Python."""
    lake = Lake(tmp_path).open_for_writing()
    put(lake, WINDOWS, "1")

    answer = strandline("verify", "gold.device_signal_10m", "--by", "duckdb", "--lake", lake.root)

    assert (answer.code, "is not in SQL" in answer.err) == (2, True), answer.err
