"""A query does not show a sensitive value, whatever its column is called in the queried table."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import confirmed_logins
from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.table import Appended
from strandline.engine.ask.lake_views import sources, view_of
from strandline.engine.ask.sql_query import ask
from strandline.engine.flow.function_plan import (
    cached_lineage,
    hidden,
    learn,
    take_over_lineage,
)
from strandline.engine.flow.runner import Site
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from strandline.engine.proof.compare import compare
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.runtime.code_files import code_version
from tests.cli.inside import strandline
from tests.engine.written import written
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.shapes import arrived

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SILVER = user_actions.TABLE
BRONZE = SILVER.upstream[0]


def renamed(actions: DataFrame) -> DataFrame:
    """Make a table above in which the user has other column names, one of them that of a harmless column."""
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
    key_null_ok=(),
    event_at="event_at",
    closes_at=None,
)


def counted(actions: DataFrame) -> DataFrame:
    """Make a table above that counts users, and shows some of them under harmless names."""
    per = actions.groupBy("event_at").agg(
        F.count_distinct("user_id").alias("users"),
        F.approx_count_distinct("user_id").alias("about"),
        F.count_if(F.col("user_id") == "anna").alias("annas"),
        (F.count("user_id") / F.count(F.lit(1))).alias("share"),
        F.max("user_id").alias("last"),
        F.collect_set("user_id").alias("all"),
        F.max(F.length("user_id")).alias("longest"),
    )
    return per.select("*", F.concat(F.col("users").cast("string"), "last").alias("both"))


WHO = """
    batch | action_id | user_id | device_id | action | event_at
    1     | 1         | anna    | d1        | login  | 09:00:00
"""


def acts(actions: DataFrame) -> DataFrame:
    """Show what was done."""
    return actions.select("action_id", "action", "event_at")


def actors(actions: DataFrame) -> DataFrame:
    """Show who did it, under the name of what was done."""
    return actions.select("action_id", F.col("user_id").alias("action"), "event_at")


COUNTS = replace(GOLD, name="counted", transform=counted, key=("event_at",), unmasked=("longest",))
TABLES = (BRONZE, SILVER, GOLD, COUNTS)


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


@pytest.mark.whole
@pytest.mark.parametrize("table", ["silver.user_actions", "gold.renamed", "bronze.user_actions"])
def test_no_column_shows_a_user(table: str, logins: Lake, spark: SparkSession) -> None:
    """Renamed, nested, under the name of another, or in the payload."""
    learn(spark, GOLD, logins)
    assert cached_lineage(GOLD, logins)

    every = f"SELECT * FROM {table}"  # noqa: S608  # the names above
    answer = shown(every, logins)

    assert "anna" not in answer
    assert "ben" not in answer
    assert "2026" in answer or table.startswith("bronze")
    clear = ask(every, TABLES, logins, unmasked=True)
    assert "anna" in str(clear.rows)
    assert clear.masked == ()


def test_a_table_without_known_lineage_shows_the_columns_that_its_source_shows(
    logins: Lake,
) -> None:
    """By name alone; a column with a new name may hold anything."""
    assert {"who", "nested"} <= hidden(GOLD, logins)
    assert not {"action_id", "event_at"} & hidden(GOLD, logins)


def test_what_is_counted_is_not_masked_and_what_passes_through_is(
    logins: Lake, spark: SparkSession
) -> None:
    """By lineage, in a query and over JDBC; a declaration decides where the plan cannot know. An edit changes nothing yet."""
    rows = counted(spark.read.format("delta").load(str(logins.table(SILVER)))).collect()
    written(logins.table(COUNTS), [row.asDict() for row in rows])
    sql = 'SELECT users, about, annas, share, longest, "last", "all", "both" FROM gold.counted'
    learn(spark, COUNTS, logins)
    before = ask(sql, TABLES, logins)
    kept = logins.lineage(COUNTS)
    kept.put((kept.text() or "").replace(code_version(COUNTS), "of another code"))

    after = ask(sql, TABLES, logins)
    source = sources(TABLES, logins)["gold.counted"]
    view = view_of("gold.counted", source, TABLES, logins, "salt")
    assert view is not None
    over_jdbc = spark.sql(view.masked).collect()[0]

    for found in (before, after):
        assert found.rows[0][:5] == (2, 2, 2, 1.0, 4)
        assert found.masked == ("gold.counted.all", "gold.counted.both", "gold.counted.last")
        assert "anna" not in str(found.rows)
    assert (over_jdbc["users"], over_jdbc["annas"], over_jdbc["longest"]) == (2, 2, 4)
    assert "anna" not in str([*over_jdbc])
    assert cached_lineage(COUNTS, logins) is None


@pytest.mark.whole
def test_the_lineage_of_an_older_program_masks_as_it_did_until_the_next_run(
    logins: Lake, spark: SparkSession
) -> None:
    """It did not say what may be seen; a run with the same code writes it down."""
    written(logins.table(COUNTS), [{"users": 2, "last": "ben", "event_at": NOON}])
    learn(spark, COUNTS, logins)
    known = json.loads(logins.lineage(COUNTS).text() or "")
    del known["visible"]
    logins.lineage(COUNTS).put(json.dumps(known))
    before = hidden(COUNTS, logins)

    learn(spark, COUNTS, logins)

    assert {"users", "last"} <= before
    assert {"users", "last"} & hidden(COUNTS, logins) == {"last"}


def harmless(actions: DataFrame) -> DataFrame:
    """Make the same table without a user in a harmless column."""
    return renamed(actions).drop("action").join(actions.select("action_id", "action"), "action_id")


@pytest.mark.whole
def test_rows_that_other_code_has_made_are_masked_by_it_after_an_edit_too(
    logins: Lake, spark: SparkSession
) -> None:
    """The code of today shows no user under `action`; the rows that are there do."""
    learn(spark, GOLD, logins)
    kept = logins.lineage(GOLD)
    kept.put((kept.text() or "").replace(code_version(GOLD), "of another code"))
    edited = replace(GOLD, transform=harmless)

    learn(spark, edited, logins)

    assert cached_lineage(edited, logins)
    assert "action" in hidden(edited, logins)
    answer = ask("SELECT action FROM gold.renamed", (BRONZE, SILVER, edited), logins)
    assert "anna" not in str(answer.rows)


def test_a_count_that_is_masked_for_the_rows_of_an_older_program_is_shown_where_its_table_says_so(
    logins: Lake, spark: SparkSession
) -> None:
    """What that code let be seen is not known, and its rows are there or may come back: masks of rows never shrink by themselves."""
    written(logins.table(COUNTS), [{"users": 2, "last": "ben", "event_at": NOON}])
    learn(spark, COUNTS, logins)
    known = json.loads(logins.lineage(COUNTS).text() or "")
    del known["visible"]
    logins.lineage(COUNTS).put(json.dumps(known | {"code": "of another code"}))

    learn(spark, COUNTS, logins)
    learn(spark, COUNTS, logins)
    declared = replace(COUNTS, unmasked=(*COUNTS.unmasked, "users"))

    assert {"users", "last"} & hidden(COUNTS, logins) == {"users", "last"}
    assert {"users", "last"} & hidden(declared, logins) == {"last"}


ACTS = Appended(
    name="acts", reads=(SILVER,), transform=acts, key=("action_id",), event_at="event_at"
)


def test_a_table_that_gets_the_rows_of_another_lake_is_masked_as_these_are(
    logins: Lake, spark: SparkSession
) -> None:
    """As a promotion does before its first row; where nothing is known of the rows, columns are shown by name alone."""
    learn(spark, replace(GOLD, transform=harmless), logins)
    before = hidden(GOLD, logins)
    made = Shadow.of(GOLD, logins)
    learn(spark, GOLD, made)

    take_over_lineage(GOLD, made, logins)
    after = hidden(GOLD, logins)
    made.lineage(GOLD).remove_file()
    take_over_lineage(GOLD, made, logins)

    assert "action" not in before
    assert "action" in after
    assert cached_lineage(GOLD, logins) is None


@pytest.mark.slow
def test_what_a_promotion_brings_in_is_masked_by_the_code_that_made_it(
    lake: Lake, spark: SparkSession
) -> None:
    """The live code showed what was done; that of the rebuild has a person there."""
    site = Site(spark=spark, clock=lambda: NOON)
    put(lake, {SILVER: (arrived(user_actions.FIELDS), WHO)}, "1")
    derive(spark, lake, ACTS)
    before = hidden(ACTS, lake)
    edited = replace(ACTS, transform=actors)

    rebuild(edited, lake, site)
    promote(edited, lake, site)

    assert "action" not in before
    assert "action" in hidden(edited, lake)


@pytest.mark.whole
def test_groups_and_joins_of_masked_values_are_correct(logins: Lake) -> None:
    """Equal values have equal hashes within one query, and other hashes in another."""
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

    (difference,) = compare(GOLD, logins, other, may_differ=True)

    assert difference.samples
    (other_way,) = compare(GOLD, logins, _with_ben_as_carl(tmp_path, logins))
    samples = " ".join((*difference.samples, *other_way.samples))
    assert other_way.only_left == 1
    assert not any(name in samples.lower() for name in ("anna", "ben", "carl"))


def _with_ben_as_carl(root: Path, logins: Lake) -> Lake:
    clear = ask("SELECT * FROM gold.renamed", TABLES, logins, unmasked=True)
    rows = [dict(zip(clear.columns, row, strict=True)) for row in clear.rows]
    changed = [{**row, "who": "carl"} if row["who"] == "ben" else row for row in rows]
    lake = Lake(root / "changed")
    written(lake.table(GOLD), changed)
    return lake


def test_an_unmasked_query_needs_a_reason_and_is_logged(logins: Lake) -> None:
    sql = "SELECT user_id FROM silver.user_actions"
    words = ("query", sql, "--lake", logins.root)

    masked, clear = strandline(*words), strandline(*words, "--unmasked", "fraud case 17")

    assert "anna" not in masked.printed
    assert "masked: silver.user_actions.user_id" in masked.err
    assert "anna" in clear.out
    (shown,) = newest(logins, Asked()).orders
    assert (shown.why, shown.asked["sql"]) == ("fraud case 17", sql)
    assert shown.who
    assert shown.at
    refused = strandline(*words, "--unmasked", " ")
    assert (refused.code, "anna" in refused.printed) == (DefinitionError.exit_code, False)
