"""A backtest is compared, alert for alert, with what was raised live."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import process_events
from strandline.alerting.backtest import backtest
from strandline.alerting.one_plan import raised
from strandline.alerting.tables import gold, silver
from strandline.engine.lake.commit.delta_commit import rows_now
from strandline.engine.lake.lake import Lake
from strandline_quality.findings import Change, RuleFigures
from tests.engine.proof import test_backtest as those
from tests.support.starts import believed

pytestmark = pytest.mark.whole

RULES = (those.DECODES, those.SHELL)
AS_HISTORY = dict.fromkeys(Change, 0)


@pytest.fixture
def filled(lake: Lake) -> Lake:
    believed(lake, those.STARTS)
    return lake


def alerts(spark: SparkSession, lake: Lake) -> DataFrame:
    """Return what the live path raises: on every event, also outside of the range that is tried."""
    events = rows_now(spark, process_events.TABLE, lake)
    both = [raised(events, [rule]) for rule in RULES]
    return both[0].unionByName(both[1])


def compared(spark: SparkSession, lake: Lake, live: DataFrame) -> dict[str, RuleFigures]:
    """Put alerts into gold, and compare."""
    made = live.select(*silver.FIELDS.names, F.col("event_at").alias("raised_at"))
    made.write.format("delta").save(str(lake.table(gold.TABLE)))
    asked = replace(those.asked(RULES), live=True)
    found = backtest(spark, lake, asked, lambda *_: None)[1]
    return {each.rule: each for each in found}


def counts(found: RuleFigures) -> dict[Change, int]:
    assert found.compared is not None
    return dict(found.compared.counts)


def of(rule: str, hours: int) -> Column:
    """Return whether an alert is that of a rule on the first event after so many hours."""
    since = those.SPAN.since + timedelta(hours=hours)
    return (F.col("rule_id") == rule) & F.col("event_at").between(since, since + 3 * those.EVERY)


def test_alerts_that_history_has_too_are_no_difference(spark: SparkSession, filled: Lake) -> None:
    found = compared(spark, filled, alerts(spark, filled))

    assert {each.id: counts(found[each.id]) for each in RULES} == dict.fromkeys(
        (each.id for each in RULES), AS_HISTORY
    )
    assert found["decodes"].alerts == len(those.raised(those.DECODES))


def test_an_alert_that_is_missing_invented_or_of_another_version_is_shown(
    spark: SparkSession, filled: Lake
) -> None:
    live = alerts(spark, filled)
    missing, other = of("decodes", 0), of("decodes", 10)
    (lost,), (moved,) = (live.where(one).limit(1).collect() for one in (missing, other))
    is_lost, is_moved = (F.col("alert_id") == one["alert_id"] for one in (lost, moved))
    invented = (
        live.where("rule_id = 'shell'")
        .limit(1)
        .withColumns(
            {
                "alert_id": F.lit("invented"),
                "event_key": F.lit('{"ProcessGuid":"never"}'),
                "event_at": F.lit(those.SPAN.since),
            }
        )
    )
    renamed = F.when(is_moved, F.lit("former")).otherwise(F.col("alert_id"))

    found = compared(
        spark,
        filled,
        live.where(~is_lost).withColumn("alert_id", renamed).unionByName(invented),
    )

    assert counts(found["decodes"]) == {Change.ADDED: 1, Change.GONE: 0, Change.MOVED: 1}
    assert counts(found["shell"]) == {Change.ADDED: 0, Change.GONE: 1, Change.MOVED: 0}
    assert found["decodes"].compared is not None
    (sample,) = found["decodes"].compared.samples[Change.ADDED]
    assert sample.alert_id == lost["alert_id"]
