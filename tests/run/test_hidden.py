"""A sensitive value is not shown by a question, whatever its column is called by now."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.gold import confirmed_logins
from jobs.run.ask import ask
from jobs.run.compare import compare
from jobs.run.hidden import hidden, learn
from jobs.run.lake import Lake
from jobs.run.lineage import kept
from jobs.silver import user_actions
from tests.cli.typed import strandline
from tests.run.written import written

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SILVER = user_actions.TABLE
BRONZE = SILVER.upstream[0]


def renamed(actions: DataFrame) -> DataFrame:
    """Make a table above in which a user goes by other names, one of them that of a harmless column."""
    return actions.select(
        "action_id",
        F.col("user_id").alias("who"),
        F.struct(F.upper("user_id").alias("name")).alias("nested"),
        F.col("user_id").alias("action"),
        "event_at",
    )


GOLD = replace(
    confirmed_logins.TABLE,
    name="renamed",
    reads=(SILVER,),
    transform=renamed,
    key=("action_id",),
    event_at="event_at",
    closes_at=None,
)
TABLES = (BRONZE, SILVER, GOLD)


@pytest.fixture
def logins(tmp_path: Path) -> Lake:
    """Return a lake in which anna does two things and ben one."""
    lake = Lake(tmp_path / "lake")
    for number, user in enumerate(("anna", "anna", "ben")):
        common = {"action_id": str(number), "event_at": NOON}
        payload = json.dumps({"user_id": user}).encode()
        written(lake.table(BRONZE), [{"_offset": number, "_payload": payload}])
        written(lake.table(SILVER), [{**common, "user_id": user, "action": "login"}])
        nested = {"name": user.upper()}
        written(lake.table(GOLD), [{**common, "who": user, "nested": nested, "action": user}])
    return lake


def shown(sql: str, lake: Lake) -> str:
    return str(ask(sql, TABLES, lake).rows).lower()


@pytest.mark.parametrize("table", ["silver.user_actions", "gold.renamed", "bronze.user_actions"])
def test_no_column_shows_a_user(table: str, logins: Lake, spark: SparkSession) -> None:
    """Renamed, nested, under the name of another, or in the payload."""
    learn(spark, GOLD, logins)
    assert kept(GOLD, logins)

    every = f"SELECT * FROM {table}"  # noqa: S608  # the names above
    found = shown(every, logins)

    assert "anna" not in found
    assert "ben" not in found
    assert "2026" in found or table.startswith("bronze")
    clear = ask(every, TABLES, logins, unmasked=True)
    assert "anna" in str(clear.rows)
    assert clear.masked == ()


def test_a_table_that_spark_has_not_seen_shows_what_its_source_shows(logins: Lake) -> None:
    """By name alone; what has a new name may be anything."""
    assert {"who", "nested"} <= hidden(GOLD, logins)
    assert not {"action_id", "event_at"} & hidden(GOLD, logins)


def test_groups_and_joins_of_masked_values_come_out_as_they_are(logins: Lake) -> None:
    """A sign is the same for the same value within one answer, and in no other."""
    counts = "SELECT count(*) FROM silver.user_actions GROUP BY user_id ORDER BY ALL"
    both = "SELECT count(*) FROM silver.user_actions s JOIN gold.renamed g ON s.user_id = g.who"
    signs = "SELECT DISTINCT user_id FROM silver.user_actions"

    assert ask(counts, TABLES, logins).rows == ((1,), (2,))
    assert ask(both, TABLES, logins).rows == ((5,),)
    assert not {*ask(signs, TABLES, logins).rows} & {*ask(signs, TABLES, logins).rows}
    assert ask(signs, TABLES, logins).masked == ("silver.user_actions.user_id",)


def test_a_difference_shows_no_user_either(
    logins: Lake, tmp_path: Path, spark: SparkSession
) -> None:
    learn(spark, GOLD, logins)
    other = Lake(tmp_path / "other")
    written(other.table(GOLD), [{"action_id": "9", "event_at": NOON}])

    (found,) = compare(GOLD, logins, other, may_differ=True)

    assert found.samples
    (other_way,) = compare(GOLD, logins, _with_ben_as_carl(tmp_path, logins))
    told = " ".join((*found.samples, *other_way.samples))
    assert other_way.only_left == 1
    assert not any(name in told.lower() for name in ("anna", "ben", "carl"))


def _with_ben_as_carl(root: Path, logins: Lake) -> Lake:
    found = ask("SELECT * FROM gold.renamed", TABLES, logins, unmasked=True)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    changed = [{**row, "who": "carl"} if row["who"] == "ben" else row for row in rows]
    lake = Lake(root / "changed")
    written(lake.table(GOLD), changed)
    return lake


def test_who_asks_in_the_clear_says_why_and_it_is_written_down(logins: Lake) -> None:
    sql = "SELECT user_id FROM silver.user_actions"
    words = ("query", sql, "--lake", logins.root)

    masked, clear = strandline(*words), strandline(*words, "--unmasked", "fraud case 17")

    assert "anna" not in masked.told
    assert "masked: silver.user_actions.user_id" in masked.err
    assert "anna" in clear.out
    (line,) = logins.log("unmasked").read_text().splitlines()
    told = json.loads(line)
    assert (told["why"], told["sql"]) == ("fraud case 17", sql)
    assert told["who"]
    assert told["at"]
    refused = strandline(*words, "--unmasked", " ")
    assert (refused.code, "anna" in refused.told) == (DefinitionError.exit_code, False)
