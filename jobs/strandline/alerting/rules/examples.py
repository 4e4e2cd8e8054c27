"""Run the examples of rules through the plan that will run them: what must fire fires, what must stay quiet does.

All examples of all rules about a table are one query. Each event meets every rule, and only its own is asked for.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from strandline.alerting.rules.alert import EPOCH
from strandline.alerting.rules.alert_rule import AlertRule, Event
from strandline.alerting.rules.evaluate import holds
from strandline.alerting.rules.one_plan import alerts
from strandline.alerting.rules.threshold_rule import Part, ThresholdRule
from strandline.alerting.rules.windows import Hit, fired
from strandline.core.errors import DefinitionError

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


# Run the examples of threshold rules: lists of events on which they must fire, or must not.
#
# In Python, without Spark: what finds the events is the evaluator that tests/rules/test_compile.py compares with Spark, and
# what counts them is the very function that Spark calls (jobs/strandline/alerting/rules/correlate.py).


MICROSECOND = timedelta(microseconds=1)


def broken_thresholds(rules: Iterable[ThresholdRule]) -> list[tuple[ThresholdRule, str]]:
    """Return the examples that contradict their rules, as reasons.

    Raises:
        DefinitionError: An event of an example has no time.
    """
    return [
        (rule, f"{'stays quiet' if must_fire else 'fires'} on example {number} of its {kind}")
        for rule in rules
        for kind, examples, must_fire in (
            ("fires_on", rule.fires_on, True),
            ("quiet_on", rule.quiet_on, False),
        )
        for number, events in enumerate(examples, 1)
        if fires(rule, events) is not must_fire
    ]


def fires(rule: ThresholdRule, events: Sequence[Event]) -> bool:
    """Return whether a rule fires on events, rows of its tables; any later event is long after them.

    Raises:
        DefinitionError: An event has no time.
    """
    by_key: dict[tuple[str, ...], list[Hit]] = defaultdict(list)
    for number, event in enumerate(events):
        for step, part in enumerate(rule.parts):
            if _is_found(part, event):
                key = tuple(str(event[column]) for column in part.keys)
                value = event[part.value] if part.value else ""
                text = None if value is None else str(value)
                by_key[key].append(Hit(_micros(rule, part, event), f"{number:06}", -step, text))
    return any(
        any(fired(rule, sorted(hits), max(hits).at + 3 * (rule.within // MICROSECOND)))
        for hits in by_key.values()
    )


def _is_found(part: Part, event: Event) -> bool:
    is_row = set(event) == set(part.rule.source.fields.fieldNames())
    has_key = is_row and all(event[column] is not None for column in part.keys)
    return has_key and holds(part.rule.when, event)


def _micros(rule: ThresholdRule, part: Part, event: Event) -> int:
    name = str(part.rule.source.table.event_at)
    at = event[name]
    if not isinstance(at, datetime):
        raise DefinitionError(
            f"an event in an example of {rule.id} has no time",
            hint=f"give each its {name}.",
            rule=rule.id,
        )
    return (at - EPOCH) // MICROSECOND
