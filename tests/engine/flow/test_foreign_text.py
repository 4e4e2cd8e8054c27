"""What lets Java's engine search foreign text is named with the function to use instead, and runs as before."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.core.table import Recomputed
from strandline.engine.flow.function_plan import INSTEAD, may_search, searches, sentences
from strandline.engine.flow.preflight import Answer, judge, needs_look, refuse
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.spark_checkpoint import read_record, write_record
from strandline_quality.rules import matches
from tests.support.rows import NOON

FOUND = {
    "name RLIKE '(a+)+$'": "rlike (a+)+$",
    "regexp_like(name, kind)": "rlike computed",
    "regexp_extract(name, '(\\\\d+)x', 1)": "regexp_extract (\\d+)x",
    "regexp_extract_all(name, 'a*')": "regexp_extract_all a*",
    "regexp_replace(name, '(a|b)', '')": "regexp_replace (a|b)",
    "regexp_count(name, 'a{3}')": "regexp_count a{3}",
    "regexp_substr(name, 'a+')": "regexp_substr a+",
    "regexp_instr(name, 'a?')": "regexp_instr a?",
    "split(name, ', *')": "split , *",
    "split(name, kind)": "split computed",
    "name LIKE kind": "like computed",
    "name ILIKE kind": "ilike computed",
    "str_to_map(name, ' *, *', '=')": "str_to_map  *, *",
    "parse_url(name, 'QUERY', kind)": "parse_url computed",
    "exists(array(name), each -> each RLIKE 'a+b')": "rlike a+b",
    "(SELECT max(x RLIKE 'a+c') FROM VALUES ('a') AS t(x))": "rlike a+c",
}
"""A search to what is named."""

QUIET = (
    "split(name, ',')",
    "split(name, '[*+]')",
    "split(name, '\\\\|')",
    "name RLIKE '^(?i)abc$'",
    "name LIKE '%a%b%'",
    "'aaa' RLIKE '(a+)+'",
    "linear_match(name, '(a+)+$')",
    "linear_split(name, kind)",
    "str_to_map(name)",
    "parse_url(name, 'QUERY', 'a')",
    "name RLIKE NULL",
)


@pytest.mark.whole
def test_a_search_is_named_by_what_it_is_and_by_its_pattern(spark: SparkSession) -> None:
    """Not one that only compares, nor one of a constant, nor one of ours."""
    rows = spark.createDataFrame([], "name string, kind string")

    found = {sql: searches(rows.selectExpr(sql)) for sql in (*FOUND, *QUIET)}

    expected = {sql: (name,) for sql, name in FOUND.items()} | dict.fromkeys(QUIET, ())
    assert {sql: each for sql, each in found.items() if each != expected[sql]} == {}
    assert {name.partition(" ")[0] for name in FOUND.values()} == set(INSTEAD)
    assert "write linear_match instead (infra/docs/linear.md)" in sentences(["rlike a+"])[0]


@pytest.mark.whole
def test_no_table_of_the_example_has_one(spark: SparkSession, morning: Lake) -> None:
    """Nor what parses for it; the patterns of ours are harmless, or they are RE2's."""
    path = morning.table(silver.TABLE.reads[0])
    records = rows_at(spark, path, latest_version(path))

    assert [table.id for table in catalog.tables() if may_search(table)] == []
    assert searches(silver.TABLE.transform(records)) == ()


def searching(readings: DataFrame) -> DataFrame:
    """Summarise the readings of devices whose names are searched for."""
    return gold.device_signal_10m(readings.where(F.col("device_id").rlike("^(d|e)+")))


STREAMED = replace(gold.TABLE, name="searching", transform=searching, dimension=None)
AFRESH = Recomputed(
    name="searching_afresh",
    reads=(silver.TABLE,),
    transform=searching,
    key=gold.TABLE.key,
    window=gold.WINDOW,
    window_from="window_from",
    closes_at="window_until",
)
SAYS = (
    "rlike of '^(d|e)+' is searched by Java's engine, which one text can keep busy for ever: write linear_match instead "
    "(infra/docs/linear.md)"
)


@pytest.mark.whole
@pytest.mark.parametrize("table", [STREAMED, AFRESH], ids=lambda table: table.name)
def test_a_table_that_searches_is_made_and_named(
    spark: SparkSession, morning: Lake, table: Recomputed
) -> None:
    """When it is made, and by `preflight` from then on; it runs and its stream goes on as before."""
    said: list[str] = []
    site = Site(spark=spark, clock=lambda: NOON, says=said.append)

    before = judge(spark, table, morning)
    run(table, AvailableNow(), morning, site=site)
    run(table, AvailableNow(), morning, site=site)
    after = judge(spark, table, morning)

    assert said == [f"{table.id}: {SAYS}"]
    assert morning.exists(table)
    assert [(each.answer, each.warnings) for each in (before, after)] == [
        (Answer.SAFE, (SAYS,))
    ] * 2
    refuse(after)


def test_what_was_recorded_needs_no_spark_and_an_older_record_a_look(
    spark: SparkSession, morning: Lake
) -> None:
    """A lake of the commit before has records without it, and they are as good as before."""
    site = Site(spark=spark, clock=lambda: NOON)
    run(STREAMED, AvailableNow(), morning, site=site)

    assert judge(None, STREAMED, morning).warnings == (SAYS,)
    assert not needs_look(STREAMED, morning)

    checkpoint = morning.checkpoint(STREAMED)
    record = read_record(checkpoint)
    assert record is not None
    plan = {name: value for name, value in record.plan.items() if name != "searches"}
    write_record(checkpoint, replace(record, plan=plan))

    without = judge(None, STREAMED, morning)
    assert (without.answer, without.warnings) == (Answer.SAFE, ())
    assert needs_look(STREAMED, morning)
    assert judge(spark, STREAMED, morning).warnings == (SAYS,)


def test_a_table_whose_rule_cannot_be_asked_is_refused_alone(
    spark: SparkSession, morning: Lake
) -> None:
    """An earlier version ran such a rule; its module was a fault of all tables, and no stream began."""
    rule = matches("device_id", "^(?!x)d")
    table = replace(silver.TABLE, rules=(*silver.TABLE.rules, rule))
    site = Site(spark=spark, clock=lambda: NOON)

    with pytest.raises(DefinitionError, match="does not run, because of its rule") as refused:
        run(table, AvailableNow(), morning, site=site)
    verdict = judge(spark, table, morning)
    refuse(verdict, judge(spark, gold.TABLE, morning))

    assert "look-around" in refused.value.message
    assert "infra/docs/linear.md" in refused.value.hint
    assert verdict.answer is Answer.REFUSED
    assert verdict.differences[0].what == refused.value.message
    assert rule.holds == "`device_id` RLIKE '^(?!x)d'"
    assert "RLIKE" not in rule.asked
