"""Whether a condition holds for one event, in Python: to say in milliseconds, without Spark, which clause failed.

Alerts are never raised from here: Spark raises them (jobs/strandline/alerting/rules/compile.py). tests/rules/test_compile.py compares both
on every case of the specification, so that an explanation is about the rule that runs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from strandline.alerting.rules import condition
from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.condition import (
    AllOf,
    AnyOf,
    Clause,
    Condition,
    InNetwork,
    InTime,
    Matches,
    Missing,
    Not,
    Number,
    Order,
    Same,
    Text,
    TimePart,
    as_regex,
)
from strandline_quality.linear import linear

Row = Mapping[str, object]

DIGITS = 38
SCALE = 9
"""Digits of a number in a text, and those behind its point, as Spark is asked to read it."""


def holds(condition: Condition, row: Row) -> bool:
    """Return whether a condition holds for a row."""
    match condition:
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case Not(part):
            return not holds(part, row)
        case _:
            return _clause(condition, row)


def _clause(clause: Clause, row: Row) -> bool:  # noqa: PLR0911  # a kind of clause each
    value = row.get(clause.column)
    if isinstance(clause, Missing):
        return value is None
    if value is None:
        return False
    match clause:
        case Text(_, glob):
            text = str(value) if glob.cased else str(value).lower()
            return re.search(as_regex(glob.folded), text) is not None
        case Matches(_, pattern, flags):
            return linear(pattern, flags).found(str(value))
        case Number(_, order, number):
            found_number = _number(value)
            return found_number is not None and _compares(found_number, order, number)
        case InNetwork(_, network):
            return condition.contains(str(value), network)
        case Same():
            other = row.get(clause.other)
            return other is not None and _is_like(clause, str(value).lower(), str(other).lower())
        case InTime(_, part, number):
            return isinstance(value, datetime) and _part(value, part) == number


def _number(value: object) -> Decimal | None:
    """Return the number that a value is, rounded as Spark rounds it."""
    text = str(value).strip()
    if "_" in text:  # Python reads 1_000, Spark does not; digits of any script are digits to both
        return None
    try:
        found = Decimal(text)
        if not found.is_finite() or found.adjusted() >= DIGITS - SCALE:
            return None
        return round(found, SCALE)
    except InvalidOperation:
        return None


def _compares(value: Decimal, order: Order, number: Decimal) -> bool:
    match order:
        case Order.IS:
            return value == number
        case Order.BELOW:
            return value < number
        case Order.AT_MOST:
            return value <= number
        case Order.ABOVE:
            return value > number
        case Order.AT_LEAST:
            return value >= number


def _is_like(clause: Same, value: str, other: str) -> bool:
    match (clause.starts, clause.ends):
        case (True, True):
            return other in value
        case (True, False):
            return value.startswith(other)
        case (False, True):
            return value.endswith(other)
        case _:
            return value == other


def _part(value: datetime, part: TimePart) -> int:
    return value.isocalendar().week if part is TimePart.WEEK else int(getattr(value, part.value))


# Why a rule fires on an event or stays quiet: the clauses that fail, and how near it came.
#
# Clauses are shown in the rule's words, without the event's values: an explanation may be pasted into a ticket, and the
# values of some columns may not.


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
            return [_explain_clause(condition, row)]


def _explain_clause(clause: Clause, row: Row) -> str:
    is_missing = not isinstance(clause, Missing) and row.get(clause.column) is None
    return f"not: {clause}" + (f" ({clause.column} is missing)" if is_missing else "")
