"""The function of a feed of threshold rules finds what a backtest finds, each version in the events of its own stage."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from strandline.alerting.alert_rule import ThresholdRule, sources_of
from strandline.alerting.live import Counting, Stage
from strandline.alerting.windows import correlated
from tests.rules.test_correlate import ACTIONS, END, RULES, micros, tables

pytestmark = pytest.mark.whole

MANY = RULES[0]
OTHER = replace(MANY, number=2)
OFFSET = 150
SINCE = {(ACTIONS.table.name, 0): OFFSET}
OF_ACTIONS = tuple(rule for rule in RULES if rule.sources == (ACTIONS,))


def counting(*rules: ThresholdRule) -> Counting:
    return Counting((Stage(rules=rules, since={}),))


def ids(alerts: DataFrame) -> set[str]:
    return {row["alert_id"] for row in alerts.select("alert_id").collect()}


@pytest.mark.parametrize(
    "rules", [OF_ACTIONS, RULES[len(OF_ACTIONS) :]], ids=["one table", "two tables"]
)
def test_a_feed_finds_what_a_backtest_finds(
    spark: SparkSession, rules: tuple[ThresholdRule, ...]
) -> None:
    every = tables(spark)
    read = {source: every[source] for source in sources_of(rules[0])}

    found = counting(*rules)([*read.values()])

    backtested = correlated(read, rules, micros(END))
    assert found.schema.names == backtested.schema.names
    assert ids(found) == ids(backtested) != set()


def test_a_version_counts_the_events_of_its_stage_and_an_unchanged_rule_all(
    spark: SparkSession,
) -> None:
    """So no event is in alerts of two versions."""
    rows = tables(spark)[ACTIONS]
    goes_on = OF_ACTIONS[2]
    stages = counting(MANY, goes_on).then((OTHER, goes_on), since=SINCE, done={})

    found = stages([rows])

    before, after = rows.where(f"_offset < {OFFSET}"), rows.where(f"_offset >= {OFFSET}")
    wanted = [
        ids(correlated({ACTIONS: some}, [rule], micros(END)))
        for some, rule in ((before, MANY), (after, OTHER), (rows, goes_on))
    ]
    assert all(wanted)
    assert ids(found) == set().union(*wanted)
