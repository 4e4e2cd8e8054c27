"""Run the examples of threshold rules: lists of events on which they must fire, or must not.

In Python, without Spark: what finds the events is the evaluator that tests/rules/test_compile.py compares with Spark, and
what counts them is the very function that Spark calls (jobs/strandline/alerting/rules/correlate.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from strandline.alerting.rules.alert import EPOCH
from strandline.alerting.rules.alert_rule import Event
from strandline.alerting.rules.evaluate import holds
from strandline.alerting.rules.threshold_rule import Part, ThresholdRule
from strandline.alerting.rules.windows import Hit, fired
from strandline.core.errors import DefinitionError

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
