"""Run the examples of rules through the plan that will run them: what must fire fires, what must stay quiet does.

All examples of all rules about a table are one query. Each event meets every rule, and only its own is asked for.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.one_plan import alerts

NUMBER = "_example"


@dataclass(frozen=True, slots=True)
class Broken:
    """An example on which a rule does the opposite of what it must."""

    rule: AlertRule
    event: dict[str, object]
    must_fire: bool

    @property
    def reason(self) -> str:
        """Return what went wrong, with the values of the example, which are the rule's own."""
        said = {name: value for name, value in self.event.items() if value is not None}
        return f"{'stays quiet' if self.must_fire else 'fires'} on {said}"


def broken(rules: Iterable[AlertRule], spark: SparkSession) -> list[Broken]:
    """Return the examples that contradict their rules."""
    by_source = defaultdict(list)
    for rule in rules:
        if rule.fires_on or rule.quiet_on:
            by_source[rule.source].append(rule)
    return [each for group in by_source.values() for each in _broken(group, spark)]


def _broken(rules: list[AlertRule], spark: SparkSession) -> list[Broken]:
    asked = [
        Broken(rule, dict(event), must_fire)
        for rule in rules
        for must_fire, events in ((True, rule.fires_on), (False, rule.quiet_on))
        for event in events
    ]
    schema = StructType([*rules[0].source.fields, StructField(NUMBER, LongType())])
    rows = [(*each.event.values(), number) for number, each in enumerate(asked)]
    fired = alerts(spark.createDataFrame(rows, schema), rules).select(NUMBER, "rule_id").collect()
    found = {(row[NUMBER], row["rule_id"]) for row in fired}
    return [
        each
        for number, each in enumerate(asked)
        if ((number, each.rule.id) in found) is not each.must_fire
    ]
