"""A static table from a real PostgreSQL: its answer is a version, and what is wrong with it is said without its password."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.static import Static
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.batch import event_joins
from strandline.engine.flow.batch.event_joins import Taker, outlook
from strandline.engine.lake import static_versions
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from tests.cli.typed import strandline
from tests.engine.flow.test_static_join import (
    COUNTED,
    LOG,
    VIEW,
    VIEWS,
    counts,
    derive,
    newest_static,
    table_of,
    taken,
)
from tests.support.absent import without
from tests.support.literal import put
from tests.support.postgres import PASSWORD, Server, served
from tests.support.rows import NOON, rows

CAMPAIGNS = Static(
    name="campaigns",
    query="SELECT ad_id, name AS campaign, 1 AS more FROM campaigns",
    url="ADS_DATABASE",
    columns="ad_id string, campaign string",
    key=("ad_id",),
)
FIRST = "INSERT INTO campaigns VALUES ('a1', 'spring'), ('a2', 'summer')"
SECOND = (
    "DELETE FROM campaigns",
    "INSERT INTO campaigns VALUES ('a9', 'autumn'), ('a1', 'winter')",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve a database."""
    with served() as running:
        running.execute("CREATE DATABASE ads")
        yield running


@pytest.fixture
def ads(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Fill the table with the first content, and give the environment its address."""
    monkeypatch.setenv("ADS_DATABASE", server.url("ads"))
    changed(
        server,
        "DROP TABLE IF EXISTS campaigns",
        "CREATE TABLE campaigns (ad_id text, name text)",
        FIRST,
    )
    return server


def changed(server: Server, *statements: str) -> None:
    """Change the table."""
    server.execute(*statements, database="ads")


def test_what_a_query_answers_is_a_version_and_each_event_meets_that_of_its_time(
    spark: SparkSession, lake: Lake, ads: Server
) -> None:
    """The same rows in another order are none; the numbers are those of a table that reads a file."""
    table, log = table_of(CAMPAIGNS), {VIEWS: (VIEW, LOG)}
    put(lake, log, "1")
    said = derive(spark, lake, table)
    changed(
        ads,
        "DELETE FROM campaigns",
        f"{FIRST.replace('spring', 'x')}",
        "UPDATE campaigns SET name = 'spring' WHERE name = 'x'",
    )
    assert taken(spark, lake, table) == [], "the same rows"
    changed(ads, *SECOND)
    assert outlook(table, lake) == [
        "static.campaigns has another content than version 1: a start takes it in"
    ]
    for number in "234":
        put(lake, log, number)
        said += derive(spark, lake, table)

    assert counts(lake, table) == sorted(rows(COUNTED), key=str)
    assert balance(table, lake).faults == []
    assert [line.partition(" of static")[0].rpartition(" ")[2] for line in said] == ["1", "2"]
    assert newest_static(CAMPAIGNS, lake).source.startswith("ADS_DATABASE ")


@pytest.mark.usefixtures("ads")
def test_values_have_the_declared_types_or_the_column_is_named() -> None:
    """A column without any value has every type; a number is no text."""
    wide = replace(
        CAMPAIGNS,
        query="SELECT ad_id, 1.50 AS price, 3 AS stock, true AS is_on, DATE '2026-11-20' AS day, "
        "TIMESTAMPTZ '2026-11-20 14:00+02' AS at, TIMESTAMP '2026-11-20 12:00' AS bare, NULL AS none FROM campaigns "
        "WHERE ad_id = 'a1'",
        columns="ad_id string, price decimal(10,2), stock bigint, is_on boolean, day date, at timestamp, bare timestamp, none double",
    )

    found = static_versions.read(wide)

    assert found is not None
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert found.content == {
        ("a1",): (Decimal("1.50"), 3, True, date(2026, 11, 20), noon, noon, None)
    }
    for columns, message in (
        (
            "ad_id string, stock string",
            "cannot be read from the query of ADS_DATABASE: its column stock is",
        ),
        ("ad_id string, colour string", "it has no column colour, but ad_id, price"),
        ("ad_id string, price decimal(3,1)", r"cannot be read from the query of ADS_DATABASE: .*"),
    ):
        fit = "1.55" if "decimal" in columns else "1.50"
        with pytest.raises(DefinitionError, match=message):
            static_versions.read(
                replace(wide, columns=columns, query=str(wide.query).replace("1.50", fit))
            )


def test_a_database_that_cannot_be_asked_lets_the_last_version_go_on_and_shows_no_password(
    spark: SparkSession, lake: Lake, ads: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away, refuses the query, answers nothing or too late, or the environment lacks its address."""
    monkeypatch.setattr(event_joins, "ASKED", 1e-9)
    monkeypatch.setattr(static_versions, "ANSWER", 1)
    table = table_of(CAMPAIGNS)
    taken(spark, lake, table)
    writes = (
        "CREATE OR REPLACE FUNCTION written() RETURNS text LANGUAGE sql AS "
        "$$ DELETE FROM campaigns RETURNING ad_id $$"
    )
    changed(ads, writes)
    for query, address, message in (
        ("", "postgresql://u:p@127.0.0.1:1/ads", "does not answer: connection to server"),
        (
            "",
            ads.url("ads", password="secret"),  # noqa: S106  # of no server
            "password authentication failed",
        ),
        ("", "", "asks the database of ADS_DATABASE, which the environment lacks"),
        ("", f"postgresql://u:{PASSWORD}@127.0.0.1/ads", "ADS_DATABASE, whose value is no address"),
        ("SELECT a FROM campaigns", None, 'refuses its query: column "a" does not exist'),
        ("SELECT written() AS ad_id", None, "refuses its query: cannot execute DELETE"),
        ("SELECT pg_sleep(60)", None, "canceling statement due to statement timeout"),
        ("SELECT * FROM campaigns WHERE false", None, "which answers without a row"),
    ):
        monkeypatch.setenv("ADS_DATABASE", ads.url("ads") if address is None else address)
        asks = table_of(replace(CAMPAIGNS, query=query or CAMPAIGNS.query))
        said: list[str] = []
        taker = Taker(spark, asks, lake, lambda: NOON, said.append)
        taker.take()
        taker.take()

        (line,) = said
        assert message in line
        assert "; its version 1 goes on. " in line
        assert PASSWORD not in line
        assert "secret" not in line
        without_version = Lake(lake.root / "other").open_for_writing()
        with pytest.raises((DefinitionError, TransientError), match=r"static\.campaigns"):
            Taker(spark, asks, without_version, lambda: NOON, said.append).take()
    assert latest_version(lake.table(CAMPAIGNS)) == 1


def test_a_database_is_asked_once_a_minute_and_not_at_each_look(
    spark: SparkSession, lake: Lake, ads: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is away: a stream would wait for it between all of its batches."""
    monkeypatch.setattr(event_joins, "ASKED", 1e9)
    said: list[str] = []
    taker = Taker(spark, table_of(CAMPAIGNS), lake, lambda: NOON, said.append)
    taker.take()
    changed(ads, *SECOND)
    taker.take()
    assert latest_version(lake.table(CAMPAIGNS)) == 1
    monkeypatch.setattr(event_joins, "ASKED", 1e-9)
    taker.take()
    assert latest_version(lake.table(CAMPAIGNS)) == 2


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"url": None}, "has a query and no variable", 'url="SHOP_DATABASE"'),
        ({"url": "postgresql://u:p@h/d"}, "has a query and no variable", "has a password"),
        ({"query": None}, "declares nothing to read", "query="),
        ({"query": " "}, "has query=' ' for the database of ADS_DATABASE", "SELECT product"),
        ({"file": "a.csv"}, "declares file and query to read", "one of file="),
        ({"query": None, "file": "a.csv"}, "has query=None for the database of", "SELECT"),
    ],
)
def test_a_plain_mistake_is_refused_with_what_to_write(
    fields: dict[str, object], message: str, hint: str
) -> None:
    """When it is declared."""
    with pytest.raises(DefinitionError, match=message) as refused:
        replace(CAMPAIGNS, **fields)  # type: ignore[arg-type]
    assert hint in str(refused.value.hint)
    assert "u:p@h" not in refused.value.message


def test_without_the_driver_the_extra_is_named(tmp_path: Path) -> None:
    """A program of its own, because a package that was imported is there."""
    code = (
        "from strandline.core.static import Static\n"
        "from strandline.engine.lake import static_versions\n"
        "from strandline.core.errors import LakeError\n"
        "try:\n"
        "    static_versions.read(Static(name='a', query='SELECT 1', url='A', columns='k string, v string', key=('k',)))\n"
        "except LakeError as error:\n"
        "    print(error.message, error.hint)\n"
    )
    answer = strandline(
        "-c", code, env=dict(without(tmp_path, ["postgres"])), program=sys.executable
    )

    assert "static.a asks a database of PostgreSQL, and its driver is not installed" in answer.out
    assert "pip install 'strandline[postgres]'" in answer.out
