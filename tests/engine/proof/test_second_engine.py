"""DuckDB recomputes a table in SQL: it finds faults of our own code, and says which words it lacks."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry, user_actions, user_confirmations
from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Table
from strandline.engine.flow import plan
from strandline.engine.flow.runner import Site
from strandline.engine.lake.duckdb_table import duck_error, spilling
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import certificate
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.duckdb_words import MACROS, in_duckdb
from strandline.engine.proof.second_engine import recompute
from strandline.engine.repair.close import close, close_as_batch
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


@pytest.mark.parametrize("way", [in_batch, in_steps], ids=["batch", "stream"])
def test_what_was_closed_on_purpose_is_computed_by_the_same_moment(
    spark: SparkSession, tmp_path: Path, way: Callable[[SparkSession, Lake, Table, Log], None]
) -> None:
    """Two windows are open by what was read, and over by the order."""
    table = fleet_in_sql.SIGNALS
    lake = Lake(tmp_path).open_for_writing()
    way(spark, lake, table, WINDOWS)
    if way is in_batch:
        close_as_batch(table, lake, Site(spark=spark, clock=lambda: NOON), "ops")
        derive(spark, lake, table, mode=Batch())
    else:
        close(table, lake, Site(spark=spark, clock=lambda: NOON), "ops")

    found = certified(table, lake)

    assert found.differences == ()
    assert (found.equal, found.rows) == (True, 4)


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


@pytest.mark.whole
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


KINDS = {
    "device_id": "VARCHAR",
    "id": "BIGINT",
    "at": "TIMESTAMP",
    "d": "DATE",
    "x": "DOUBLE",
    "m": "DECIMAL(9,2)",
    "n": "INTEGER",
    "list": "INTEGER[]",
}
OTHERWISE = [
    "max(cast(at AS bigint))",
    "max(cast(id AS timestamp))",
    "max(cast(device_id AS timestamp))",
    "max(try_cast(device_id AS int))",
    "max(cast(x AS string))",
    "max(cast(x AS decimal(9,2)))",
    "max(concat(device_id, x))",
    "max(sha2(device_id, 512))",
    "max(array_contains(list, 5))",
    "max(x div 2)",
    "max(struct(id, n))",
    "max_by(id, struct(at, n))",
    "max(substr(device_id, 0, 2))",
    "max(substr(device_id, -9, 6))",
    "count_if(at > '2024-01-01T00:00:00+02:00')",
    "count_if(at > timestamp '2024-01-01T00:00:00+02:00')",
    "max(date_trunc('century', at))",
    "max(to_date(device_id))",
]


@pytest.mark.parametrize("column", OTHERWISE)
def test_a_word_by_which_duckdb_means_another_thing_is_lacking(column: str) -> None:
    """Its answer would be a certificate that right rows are wrong."""
    statement = understood(f"SELECT device_id, {column} AS x FROM {{t}} GROUP BY device_id")  # noqa: S608  # a test's own text

    with pytest.raises(DefinitionError, match="DuckDB lacks a word of the same meaning for"):
        in_duckdb(statement, {"source_0": KINDS})


def test_a_lateral_view_that_keeps_rows_without_items_is_lacking() -> None:
    statement = understood("SELECT id, y FROM {t} LATERAL VIEW OUTER explode(list) z AS y")

    with pytest.raises(DefinitionError, match="DuckDB lacks a word"):
        in_duckdb(statement, {"source_0": KINDS})


HALF = "cast(m AS double) / 2"
AS_SPARK = {
    "max_by(device_id, id)": None,
    "min_by(id, at)": 1,
    "size(collect_set(n) FILTER (WHERE id > 9))": 0,
    "sort_array(collect_list(n) FILTER (WHERE id > 9))": [],
    "count_if(cast(m AS int) = 7)": 1,
    "max(trim(device_id))": "\u00a0Ab",
    "max(lower(ltrim('Ab')))": "ab",
    "max(year(at))": 2024,
    "max(day(at))": 4,
    "max(to_date(at))": date(2024, 3, 4),
    "max(date_trunc('MM', at))": datetime(2024, 3, 1),  # noqa: DTZ001  # DuckDB's own have no zone
    "max(trunc(at, 'YYYY'))": date(2024, 1, 1),
    "max(n div 2)": -3,
    "max(cast(m AS string))": "7.55",
    "max(sha2('a', 256))": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "max(try_cast(300 AS tinyint))": None,
    "count_if(count_if_of > 3)": 1,
}
"""What Spark answers of two rows, the second of which has NULLs alone beside its number."""


def test_the_answers_of_these_words_are_those_of_spark(spark: SparkSession) -> None:
    """All in one SELECT, over the same rows."""
    rows = spark.sql(
        "SELECT * FROM VALUES ('\u00a0Ab ', 1L, timestamp '2024-03-04 05:06:07', date '2024-03-04', 7.5D, 7.55BD, -7, array(3, NULL)), "
        "(NULL, 2L, NULL, NULL, NULL, NULL, NULL, NULL) AS t(device_id, id, at, d, x, m, n, list)"
    )
    columns = [each.replace("count_if_of", HALF) for each in AS_SPARK]

    (found,) = rows.selectExpr(*columns).collect()

    assert dict(zip(AS_SPARK, found, strict=True)) == AS_SPARK


@pytest.mark.parametrize(("column", "answer"), AS_SPARK.items(), ids=AS_SPARK)
def test_a_word_that_duckdb_has_otherwise_is_written_in_another_way(
    column: str, answer: object
) -> None:
    """So that its answer is Spark's, also of rows without values."""
    column = column.replace("count_if_of", HALF)
    statement = understood(f"SELECT {column} AS x FROM {{t}}")  # noqa: S608  # a test's own text
    select = in_duckdb(statement, {"source_0": KINDS})

    with spilling() as duck:
        duck.execute(MACROS)
        columns = ", ".join(f'"{name}" {kind}' for name, kind in KINDS.items())
        duck.execute(f"CREATE TABLE source_0 ({columns})")
        duck.execute(
            "INSERT INTO source_0 VALUES "
            "(chr(160) || 'Ab ', 1, '2024-03-04 05:06:07', '2024-03-04', 7.5, 7.55, -7, [3, NULL]), "
            "(NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL)"
        )

        assert duck.execute(select).fetchall() == [(answer,)]


@pytest.mark.parametrize("column", ["upper(device_id)", "cast(n AS tinyint)"])
def test_what_duckdb_cannot_answer_as_spark_does_throws(column: str) -> None:
    """A letter whose capital is two, and a number that is too large: to Spark's plain cast that is an error as well."""
    select = in_duckdb(
        understood(f"SELECT {column} AS x FROM {{t}}"),  # noqa: S608  # a test's own text
        {"source_0": KINDS},
    )

    with spilling() as duck:
        duck.execute(MACROS)
        duck.execute("CREATE TABLE source_0 AS SELECT 'Straße' AS device_id, 300 AS n")

        with pytest.raises(duck_error()):
            duck.execute(select).fetchall()


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
