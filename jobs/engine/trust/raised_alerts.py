"""The alerts that were raised live, as a backtest compares its own with them.

An alert has one id wherever it comes from, so a backtest over a range says alert for alert what the live path said, unless
something is wrong, or the two saw different events: a rule that was not live at the time, and an event that a quarantine
holds, of which the live path has raised an alert and silver has no row.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.engine.repair.closed_range import Span
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.read_version import rows_now
from jobs.gold import alerts as gold
from jobs.rules.alert_rule import AlertRule
from jobs.rules.threshold_rule import ThresholdRule

WAS_RAISED = "_was_raised"


def beside_raised(
    spark: SparkSession,
    lake: Lake,
    tried: DataFrame,
    rules: Sequence[AlertRule | ThresholdRule],
    span: Span,
) -> DataFrame:
    """Add to the alerts of a backtest those that its rules, in any version, have raised live in its range."""
    named = F.col("rule_id").isin([rule.id for rule in rules])
    raised = rows_now(spark, gold.TABLE, lake).where(named & span.holds(gold.TABLE.event_at))
    marked = raised.select(*tried.columns, F.lit(True).alias(WAS_RAISED))
    return tried.withColumn(WAS_RAISED, F.lit(False)).unionByName(marked)
