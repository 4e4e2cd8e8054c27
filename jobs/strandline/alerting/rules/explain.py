"""Why a rule fires on an event or stays quiet: the clauses that fail, and how near it came.

Clauses are shown in the rule's words, without the event's values: an explanation may be pasted into a ticket, and the
values of some columns may not.
"""

from dataclasses import dataclass

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.condition import AllOf, AnyOf, Clause, Condition, Missing, Not
from strandline.alerting.rules.evaluate import Row, holds

SHOWN = 3
"""Alternatives that are listed; a rule may have hundreds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rule says about an event.

    Args:
        rule: The rule.
        fires: Whether it fires.
        failing: What would have to be otherwise for it to fire; of alternatives, those of the nearest one.
        held: How many parts of the condition hold.
        asked: How many parts it has.
    """

    rule: AlertRule
    fires: bool
    failing: tuple[str, ...]
    held: int
    asked: int

    @property
    def is_near(self) -> bool:
        """Return whether it is a near miss: something of it holds."""
        return not self.fires and self.held > 0


def explain(rule: AlertRule, row: Row) -> Explanation:
    """Return what a rule says about a row of its table."""
    condition = _nearest(rule.when, row)
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    held = sum(holds(part, row) for part in parts)
    failing = tuple(reason for part in parts for reason in _failing(part, row))
    return Explanation(rule, holds(rule.when, row), failing, held, len(parts))


def _nearest(condition: Condition, row: Row) -> Condition:
    """Return the alternative of which the fewest parts fail."""
    if isinstance(condition, AnyOf) and any(isinstance(part, AllOf) for part in condition.parts):
        nearest = min(condition.parts, key=lambda part: len(_failing(part, row)))
        return _nearest(nearest, row)
    return condition


def _failing(condition: Condition, row: Row) -> list[str]:
    """Return what fails in a condition; nothing where it holds."""
    if holds(condition, row):
        return []
    match condition:
        case AllOf(parts):
            return [reason for part in parts for reason in _failing(part, row)]
        case AnyOf(parts):
            shown = "; ".join(map(str, parts[:SHOWN]))
            more = len(parts) - SHOWN
            return [f"none of: {shown}" + (f"; and {more} more" if more > 0 else "")]
        case Not(part):
            return [f"an exclusion holds: {part}"]
        case _:
            return [_clause(condition, row)]


def _clause(clause: Clause, row: Row) -> str:
    is_missing = not isinstance(clause, Missing) and row.get(clause.column) is None
    return f"not: {clause}" + (f" ({clause.column} is missing)" if is_missing else "")
