"""No query reaches a file, or the salt of the masks, by a name, a version or a function that it makes up."""

from pathlib import Path

import pytest
from strandline import catalog

from fleet.silver import user_actions
from strandline.core.errors import DataError, DefinitionError
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.duckdb_table import Duck, duck_error, session
from strandline.engine.lake.lake import Lake
from tests.engine.written import entry, small_lake, written

SALT = "5a17" * 16
ALICE = [{"action_id": "a1", "user_id": "alice"}]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with a sensitive column."""
    made = small_lake(tmp_path_factory.mktemp("scope") / "lake")
    written(made.table(user_actions.TABLE), ALICE, entry(user_actions.TABLE).encoded())
    return made


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT o.* FROM "{file}" o, (WITH "{file}" AS (SELECT 1) SELECT 1), silver.user_actions',
        'WITH "{file}" AS (FROM "{file}") FROM "{file}", silver.user_actions',
        'WITH a AS (FROM "{file}"), "{file}" AS (SELECT 1) FROM a, silver.user_actions',
        'WITH RECURSIVE "{file}" AS (FROM "{file}" UNION ALL FROM "{file}") FROM "{file}", silver.user_actions',
        'FROM (SUMMARIZE FROM "{file}"), (WITH "{file}" AS (SELECT 1) SELECT 1), silver.user_actions',
        "FROM duckdb_views, (WITH duckdb_views AS (SELECT 1) SELECT 1)",
        "FROM silver.user_actions AT (VERSION => (SELECT count(*) FROM '{file}'))",
        "FROM silver.user_actions AT (TIMESTAMP => (SELECT string_agg(user_id) FROM '{file}'))",
        "SELECT json_serialize_plan('SELECT getvariable(''drawn'')', optimize := true)",
        "FROM silver.user_actions WHERE user_id = JSON_SERIALIZE_PLAN('SELECT 1')::VARCHAR",
    ],
)
def test_a_file_is_not_reached_by_a_name_that_is_declared_elsewhere(sql: str, lake: Lake) -> None:
    """Nor by a version that is a query, nor through what a function shows."""
    (file,) = Path(lake.table(user_actions.TABLE)).glob("*.parquet")

    with pytest.raises(DefinitionError) as caught:
        ask(sql.format(file=file), catalog.tables(), lake)

    assert "alice" not in str(caught.value)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH Sums AS (SELECT 1 AS a) SELECT a FROM sums", 1),
        (
            "WITH a AS (SELECT 1 AS n), b AS MATERIALIZED (FROM a) SELECT (SELECT n FROM b) FROM A",
            1,
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT max(n) FROM t",
            3,
        ),
        ("WITH t AS (SELECT 2 AS n) SELECT max::INT FROM (SUMMARIZE FROM t)", 2),
        (
            "WITH t AS (SELECT 1 AS n) SELECT sum(n) FROM (WITH u AS (FROM t) FROM u UNION ALL FROM t)",
            2,
        ),
        ("SELECT count(*) FROM silver.user_actions AT (TIMESTAMP => now() + INTERVAL 1 DAY)", 1),
    ],
)
def test_a_declared_name_is_known_where_sql_knows_it(sql: str, expected: int, lake: Lake) -> None:
    """Whatever its case."""
    assert ask(sql, catalog.tables(), lake).rows == ((expected,),)


@pytest.mark.whole
def test_a_function_of_this_duckdb_that_shows_a_variable_is_refused(lake: Lake) -> None:
    """Those of a later version are found as well."""
    duck = session()
    duck.execute("SET VARIABLE drawn = $salt", {"salt": SALT})
    found = duck.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
    )
    names = [name for (name,) in found.fetchall() if name.isidentifier()]
    asked = "'SELECT getvariable(''drawn'')'"
    calls = [
        f"SELECT {name}({words})"
        for name in names
        for words in ("'drawn'", asked, f"{asked}, optimize := true")
    ]
    showing = [call for call in calls if _shows(duck, call)]

    assert len(names) > 500
    assert {call.partition("(")[0] for call in showing} == {
        "SELECT getvariable",
        "SELECT json_serialize_plan",
    }
    for call in showing:
        with pytest.raises(DefinitionError, match="shows no data"):
            ask(call, (), lake)


def _shows(duck: Duck, call: str) -> bool:
    try:
        return SALT in str(duck.execute(call).fetchall())
    except duck_error() as error:
        return SALT in str(error)


def test_a_damaged_log_is_a_sentence_and_takes_no_other_table_away(lake: Lake) -> None:
    last = Path(lake.quarantine(catalog.find("silver.device_telemetry"))) / "_delta_log"
    (last / "00000000000000000000.json").write_text('{"protocol"')

    with pytest.raises(DataError, match="is damaged: the log of") as caught:
        ask("FROM quarantine.device_telemetry", catalog.tables(), lake)

    assert caught.value.hint
    assert ask("SELECT count(*) FROM silver.user_actions", catalog.tables(), lake).rows == ((1,),)
