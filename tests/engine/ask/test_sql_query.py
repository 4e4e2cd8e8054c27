"""A query can read the lake's tables and do nothing else."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.engine.ask.lake_views import ENTRIES, sources, view_of
from strandline.engine.ask.sql_query import Answer, ask
from strandline.engine.lake.lake import Lake
from tests.engine.written import SILVER, small_lake, written

SECRET = "the moon is made of it"  # noqa: S105  # what a query must not be able to read


@pytest.fixture
def sound(tmp_path: Path) -> Lake:
    """Return a lake, and make a file beside it that does not belong to it."""
    (tmp_path / "secret.csv").write_text(SECRET)
    return small_lake(tmp_path / "lake")


def answer(sql: str, lake: Lake) -> Answer:
    return ask(sql, catalog.tables(), lake)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM bronze.device_telemetry", 5),
        ("SELECT count(*) FROM silver.device_telemetry", 3),
        ("SELECT count(*) FROM quarantine.device_telemetry", 1),
        ("SELECT max(number) FROM gold.device_signal_10m", 0),
        ("WITH s AS (FROM silver.device_telemetry) SELECT sum(number) FROM s", 3),
        ("FROM (VALUES (7)) LIMIT 1;", 7),
    ],
)
def test_one_select_is_answered(sql: str, expected: int, sound: Lake) -> None:
    """Over every layer and the quarantine."""
    assert answer(sql, sound).rows == ((expected,),)


def test_an_answer_names_its_columns(sound: Lake) -> None:
    """Also when it has no row."""
    assert answer("SELECT 1 AS one, 2 AS two WHERE false", sound) == Answer(("one", "two"), ())


def test_times_are_utc(sound: Lake) -> None:
    """Whatever the machine's time zone is."""
    result = answer("SELECT CAST(TIMESTAMPTZ '2026-11-20 12:00:00+00' AS VARCHAR)", sound)

    assert result.rows == (("2026-11-20 12:00:00+00",),)


@pytest.mark.whole
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM silver.device_telemetry",
        "INSERT INTO silver.device_telemetry VALUES (1)",
        "UPDATE silver.device_telemetry SET number = 1",
        "DROP VIEW silver.device_telemetry",
        "CREATE TABLE t AS SELECT 1",
        "COPY (SELECT 1) TO '{outside}/copied.csv'",
        "ATTACH '{outside}/other.db'",
        "EXPORT DATABASE '{outside}/exported'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "CALL pragma_version()",
        "SELECT 1; DROP VIEW silver.device_telemetry",
        "SELECT 1; SELECT 2",
        "",
        "nonsense",
    ],
)
def test_what_is_not_one_select_is_refused(sql: str, sound: Lake, tmp_path: Path) -> None:
    """Before anything of it is run."""
    with pytest.raises(DefinitionError) as caught:
        answer(sql.format(outside=tmp_path), sound)

    assert caught.value.hint
    assert {path.name for path in tmp_path.iterdir()} == {"secret.csv", "lake"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{outside}/secret.csv'",
        "SELECT * FROM read_csv('{outside}/secret.csv', header = false)",
        "SELECT * FROM read_text('{outside}/secret.csv')",
        "SELECT * FROM glob('{outside}/*')",
        "SELECT * FROM parquet_scan('{outside}/lake/silver/device_telemetry/*.parquet')",
        "SELECT getenv('HOME')",
        "SELECT getvariable('drawn')",
        "SELECT current_setting('allowed_directories')",
        "FROM duckdb_views()",
        "FROM duckdb_settings()",
        "FROM query('FROM silver.device_telemetry')",
        "FROM query_table('silver.device_telemetry')",
        "FROM parquet_metadata('{outside}/lake/silver/device_telemetry/*.parquet')",
        "FROM sqlite_master",
        "FROM pg_catalog.pg_views",
        "FROM __silver_device_telemetry",
        "WITH path AS (SELECT 1) FROM path, '{outside}/secret.csv'",
        "SELECT (SELECT content FROM read_text('{outside}/secret.csv'))",
        "SELECT 1 WHERE EXISTS (FROM '{outside}/secret.csv')",
    ],
)
def test_a_select_cannot_reach_beyond_the_tables(sql: str, sound: Lake, tmp_path: Path) -> None:
    """A query often comes from a chat or a dashboard, and its author is unknown."""
    with pytest.raises(DefinitionError):
        answer(sql.format(outside=tmp_path), sound)


def test_a_missing_table_is_reported_with_those_that_exist(sound: Lake) -> None:
    """A typing mistake is answered with the right names."""
    with pytest.raises(DefinitionError) as caught:
        answer("SELECT * FROM silver.divice_telemetry", sound)

    assert SILVER.id in caught.value.hint


def test_a_mistake_in_sql_is_one_sentence(sound: Lake) -> None:
    """DuckDB's own message is clear; its pointer into the text is not needed."""
    with pytest.raises(DefinitionError) as caught:
        answer("SELEC 1", sound)

    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_asking_changes_nothing(sound: Lake, tmp_path: Path) -> None:
    """Not a file is made, not a byte of the log is written."""
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    answer("SELECT count(*) FROM silver.device_telemetry", sound)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_an_entry_of_a_table_with_masks_has_no_names_out_of_payloads(sound: Lake) -> None:
    """A name that no module declares, and a kind, may itself be a value; of other tables they are shown."""
    found = json.dumps({"read": 3, "drift": {"x alice": [1, "a/0/1", "t"]}, "kinds": {"alice": 1}})
    rows = [
        {"table": name, "log": "", "version": 0, "entry": found}
        for name in (SILVER.id, "silver.user_actions", "bronze.user_actions")
    ]
    written(sound.closed_entries, rows)

    shown = dict(answer('SELECT "table", entry FROM ledger.entries', sound).rows)

    assert shown[SILVER.id] == found
    assert json.loads(str(shown["silver.user_actions"])) == {"read": 3}
    assert json.loads(str(shown["bronze.user_actions"])) == {"read": 3}


@pytest.mark.whole
def test_an_entry_over_jdbc_is_masked_alike(spark: SparkSession, sound: Lake) -> None:
    """Its view is Spark's; who sees sensitive columns sees it as it is."""
    entry = {"read": 3, "took": 1.25, "offsets": {"a/0": [0, 3]}, "x": None, "many": 2**60}
    found = json.dumps({**entry, "drift": {"x alice": [1, "a/0/1", "t"]}, "kinds": {"alice": 1}})
    names = (SILVER.id, "silver.user_actions", "bronze.user_actions")
    rows = [{"table": name, "log": "", "version": 0, "entry": found} for name in names]
    written(sound.closed_entries, rows)
    tables = catalog.tables()

    view = view_of(ENTRIES, sources(tables, sound)[ENTRIES], tables, sound, "salt")

    assert view is not None
    masked = {row["table"]: row["entry"] for row in spark.sql(view.masked).collect()}
    assert masked[SILVER.id] == found
    assert json.loads(masked["silver.user_actions"]) == entry
    assert json.loads(masked["bronze.user_actions"]) == entry
    assert {row["entry"] for row in spark.sql(view.clear).collect()} == {found}


@pytest.mark.parametrize(
    "at",
    [
        *("now() + INTERVAL 1 DAY", "today() + 1", "current_timestamp", "DATE '2999-01-01' - 3"),
        *("date_trunc('day', now() + INTERVAL '2 days')", "'2999-01-01'::TIMESTAMPTZ"),
    ],
)
def test_a_time_is_said_in_many_ways(at: str, sound: Lake) -> None:
    """Of DuckDB's own; what could be computed for ever is refused."""
    sql = f"SELECT count(*) FROM {SILVER.id} AT (TIMESTAMP => {at})"  # noqa: S608  # a test's own

    assert answer(sql, sound).rows == ((3,),)
    with pytest.raises(DefinitionError, match=r"repeat\(\) gives no time"):
        answer(f"FROM {SILVER.id} AT (TIMESTAMP => repeat('x', 2000000000))", sound)


def test_a_time_may_have_any_letter_before_its_hour(sound: Lake) -> None:
    """Also one that would end a name."""
    sql = "SELECT count(*) FROM silver.device_telemetry AT (TIMESTAMP => '2999-11-20\"12:00')"

    assert answer(sql, sound).rows == ((3,),)
