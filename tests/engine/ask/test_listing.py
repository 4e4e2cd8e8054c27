"""What a query lists are the tables of the lake, by the names that a query gives them."""

import pytest
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.lake import Lake
from tests.engine.written import small_lake

TABLES = [
    ("bronze.device_telemetry",),
    ("gold.device_signal_10m",),
    ("ledger.entries",),
    ("quarantine.device_telemetry",),
    ("silver.device_telemetry",),
]
SILVER = [("silver", "device_telemetry")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake."""
    return small_lake(tmp_path_factory.mktemp("listing") / "lake")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW TABLES", TABLES),
        ("FROM (SHOW TABLES)", TABLES),
        ("SHOW TABLES FROM Silver", [("device_telemetry",)]),
        ("SHOW TABLES FROM resolutions", []),
        (
            "SELECT schema, name FROM (SHOW ALL TABLES) WHERE 'number' IN column_names AND schema = 'silver'",
            SILVER,
        ),
        (
            "SELECT table_schema, tables.table_name FROM information_schema.tables WHERE table_schema = 'silver'",
            SILVER,
        ),
        (
            "SELECT table_schema, c.table_name FROM Information_Schema.Columns c WHERE column_name = 'number' AND c.table_schema = 'silver'",
            SILVER,
        ),
        ("SELECT count(DISTINCT schema_name) FROM information_schema.schemata", [(5,)]),
        ("SELECT count(*) FROM (SHOW TABLES), bronze.device_telemetry", [(25,)]),
    ],
)
def test_lists_have_what_a_query_can_name(
    sql: str, expected: list[tuple[object]], lake: Lake
) -> None:
    """And no view of the program's own."""
    found = ask(sql, catalog.tables(), lake)

    assert list(found.rows) == expected
    assert found.masked == ()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SHOW TABLES FROM nowhere", "no nowhere whose tables"),
        ("SHOW DATABASES", "one database"),
        ("FROM information_schema.views", "no information_schema.views"),
        ("FROM (SHOW TABLES), _listing.names", "no table _listing.names"),
    ],
)
def test_other_lists_are_refused(sql: str, words: str, lake: Lake) -> None:
    """With what there is instead."""
    with pytest.raises(DefinitionError, match=words) as caught:
        ask(sql, catalog.tables(), lake)

    assert caught.value.hint
