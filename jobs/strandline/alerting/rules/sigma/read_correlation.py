"""Read one document as a threshold rule: Sigma's correlation of rules that are in the same folder.

A rule that a correlation names raises no alert of its own, unless the correlation says ``generate: true``; that is what
the specification says, because a single failed log-in is nothing that a person wants to know of.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationRule,
    SigmaCorrelationType,
)
from sigma.exceptions import SigmaError

from strandline.alerting.rules.alert_rule import AlertRule, Event, Severity
from strandline.alerting.rules.sigma.read_rule import own_fields, reason
from strandline.alerting.rules.sigma.tree import UnsupportedError
from strandline.alerting.rules.threshold_rule import Comparison, Counted, Part, ThresholdRule
from strandline.core.errors import DefinitionError

MOST_PARTS = 50
LONGEST = timedelta(days=31)
"""The events of a key within a window are remembered."""

ONLY = ", ".join(Counted)


def read_correlation(
    document: Mapping[str, Any], origin: str, named: Mapping[str, AlertRule]
) -> ThresholdRule:
    """Return the threshold rule of a document.

    Args:
        document: The rule as YAML has it.
        origin: Its file; also the name of a rule without an id.
        named: The rules that it may name, by name and by id.

    Raises:
        UnsupportedError: It cannot run here; the text is the reason.
    """
    try:
        return _read(document, origin, named)
    except UnsupportedError:
        raise
    except SigmaError as error:
        raise UnsupportedError(reason(error)) from error
    except DefinitionError as error:
        raise UnsupportedError(error.message) from error
    except Exception as error:  # whatever a parser does with a document that was not foreseen
        raise UnsupportedError(
            f"pySigma cannot read it: {type(error).__name__}: {error}"
        ) from error


def names_of(document: Mapping[str, Any]) -> Iterable[str]:
    """Return the names under which a correlation may name a document's rule."""
    return [str(document[key]) for key in ("name", "id") if document.get(key)]


def parts_alone(document: Mapping[str, Any]) -> bool:
    """Return whether the rules that a correlation names raise alerts of their own as well."""
    correlation = document.get("correlation")
    return isinstance(correlation, Mapping) and correlation.get("generate") is True


def _read(
    document: Mapping[str, Any], origin: str, named: Mapping[str, AlertRule]
) -> ThresholdRule:
    parsed = SigmaCorrelationRule.from_dict(dict(document), collect_errors=True)
    if parsed.errors:
        raise UnsupportedError("; ".join(map(reason, parsed.errors)))
    counted = _counted(parsed.type)
    condition = parsed.condition
    if not isinstance(condition, SigmaCorrelationCondition):
        raise UnsupportedError("a condition of words is not supported; list the rules")
    parts = _parts(parsed, counted, condition, named)
    comparison, number = _compared(counted, condition, len(parts))
    within = timedelta(seconds=parsed.timespan.seconds)
    if within > LONGEST:
        raise UnsupportedError(f"its timespan is longer than {LONGEST.days} days")
    return ThresholdRule(
        id=str(parsed.id or origin),
        title=parsed.title,
        counted=counted,
        parts=parts,
        keys=tuple(parsed.group_by or ()),
        within=within,
        comparison=comparison,
        number=number,
        severity=Severity[parsed.level.name] if parsed.level else Severity.MEDIUM,
        about=parsed.description or "",
        tags=tuple(str(tag) for tag in parsed.tags),
        origin=origin,
        document=document,
        **own_fields(document, _events),
    )


def _counted(kind: SigmaCorrelationType) -> Counted:
    name = kind.name.lower()
    if name not in set(Counted):
        raise UnsupportedError(f"the correlation {name} is not supported; {ONLY} are")
    return Counted(name)


def _parts(
    parsed: SigmaCorrelationRule,
    counted: Counted,
    condition: SigmaCorrelationCondition,
    named: Mapping[str, AlertRule],
) -> tuple[Part, ...]:
    references = [each.reference for each in parsed.rules or ()]
    if len(references) > MOST_PARTS:
        raise UnsupportedError(f"it names more than {MOST_PARTS} rules")
    field = condition.fieldref if counted is Counted.VALUES else None
    if isinstance(field, list):
        raise UnsupportedError(
            "it counts the values of several fields; only those of one are counted"
        )
    parts = []
    for reference in references:
        rule = named.get(reference)
        if rule is None:
            raise UnsupportedError(
                f"it names {reference}, and no rule of the folder that runs is that"
            )
        keys = tuple(_column(parsed, each, reference, rule) for each in parsed.group_by or ())
        value = _column(parsed, field, reference, rule) if field else None
        parts.append(Part(rule=rule, keys=keys, value=value))
    return tuple(parts)


def _column(parsed: SigmaCorrelationRule, name: str, reference: str, rule: AlertRule) -> str:
    """Return the column that a name of the correlation is in the events of one of its rules."""
    field = name
    if name in parsed.aliases.aliases:
        mapping = parsed.aliases.aliases[name].mapping
        known = {each.reference: its for each, its in mapping.items()}
        if reference not in known:
            raise UnsupportedError(f"the alias {name} says nothing of {reference}")
        field = str(known[reference])
    column = rule.source.names.get(field, field)
    if column not in rule.source.fields.fieldNames():
        raise UnsupportedError(f"unknown field {field}: {rule.source.table.id} has no such column")
    return column


def _compared(
    counted: Counted, condition: SigmaCorrelationCondition, parts: int
) -> tuple[Comparison, int]:
    comparison, number = Comparison(condition.op.name.lower()), condition.count
    if not isinstance(number, int) or number < 0:
        raise UnsupportedError(f"it compares with {number}, which is no count")
    if counted in {Counted.KINDS, Counted.STEPS}:
        if comparison is Comparison.IS and number == parts:
            comparison = Comparison.AT_LEAST
        if not comparison.grows:
            raise UnsupportedError(f"{counted} waits for rules, and cannot wait for {comparison}")
        if counted is Counted.STEPS and not comparison.holds(parts, number):
            raise UnsupportedError(f"{counted} asks for more rules than it names")
        if counted is Counted.STEPS and comparison.holds(parts - 1, number):
            raise UnsupportedError(f"{counted} is supported for all of its rules, and not for some")
    return comparison, number


def _events(given: object) -> tuple[tuple[Event, ...], ...]:
    """Return examples: a list of lists of events."""
    examples = given or []
    if not isinstance(examples, list) or not all(
        isinstance(each, list) and all(isinstance(event, dict) for event in each)
        for each in examples
    ):
        raise UnsupportedError("examples of a correlation are a list of lists of events")
    return tuple(tuple(each) for each in examples)
