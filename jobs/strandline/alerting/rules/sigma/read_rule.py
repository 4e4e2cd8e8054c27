r"""Read one document as an alert rule.

Sigma has no place for examples, an owner or a runbook, and allows fields of one's own; they are under one key, so that
no later version of the specification can mean something else by them, and other tools pass over them::

    strandline:
        owner: security
        runbook: infra/docs/alert_rules.md
        fires_on:
            - {Image: 'C:\Windows\System32\certutil.exe', CommandLine: certutil -decode a b}
        quiet_on:
            - {Image: 'C:\Windows\System32\certutil.exe', CommandLine: certutil -dump}

A file beside the rule would be lost when the rule is copied.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationRule,
    SigmaCorrelationType,
)
from sigma.exceptions import SigmaError
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import RE2RegexEngine, RegexPattern
from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
from sigma.processing.transformations import FieldMappingTransformation
from sigma.rule import SigmaLogSource, SigmaRule

from strandline.alerting import declared
from strandline.alerting.rules.alert_rule import AlertRule, Event, Severity
from strandline.alerting.rules.sigma.tree import UnsupportedError, condition
from strandline.alerting.rules.threshold_rule import Comparison, Counted, Part, ThresholdRule
from strandline.alerting.source import AlertSource
from strandline.core.errors import DefinitionError
from strandline_quality.linear import RefusedError


class _Quiet(RE2RegexEngine):
    """Google's RE2, which pySigma checks expressions with and which would print each broken one."""

    def compile(self, pattern: str, flags: int = 0) -> RegexPattern:  # noqa: ARG002  # flags change no verdict
        options = self._re2.Options()
        options.log_errors = False
        return cast("RegexPattern", self._re2.compile(pattern, options))


POLICY = SigmaPolicy(regex_engine=_Quiet())
OWN = "strandline"
OWN_KEYS = {"owner", "runbook", "fires_on", "quiet_on"}


def read_rule(document: Mapping[str, Any], origin: str) -> AlertRule:
    """Return the rule of a document.

    Args:
        document: The rule as YAML has it.
        origin: Its file; also the name of a rule without an id.

    Raises:
        UnsupportedError: It cannot run here; the text is the reason.
    """
    _refuse_kinds(document)
    try:
        parsed = _parsed(document)
        source = _source(parsed.logsource)
        _mapped(source).apply(parsed)
        return AlertRule(
            id=str(parsed.id or origin),
            title=parsed.title,
            source=source,
            when=condition(parsed, source),
            severity=Severity[parsed.level.name] if parsed.level else Severity.MEDIUM,
            about=parsed.description or "",
            tags=tuple(str(tag) for tag in parsed.tags),
            origin=origin,
            document=document,
            **own_fields(document, _events),
        )
    except UnsupportedError:
        raise
    except RefusedError as refused:
        raise UnsupportedError(f"a regular expression: {refused}") from refused
    except SigmaError as error:
        raise UnsupportedError(reason(error)) from error
    except DefinitionError as error:
        raise UnsupportedError(error.message) from error
    except RecursionError as error:
        raise UnsupportedError("it is nested too deep") from error
    except Exception as error:  # whatever a parser does with a document that was not foreseen
        raise UnsupportedError(
            f"pySigma cannot read it: {type(error).__name__}: {error}"
        ) from error


def _refuse_kinds(document: Mapping[str, Any]) -> None:
    for key, what in {
        "filter": "a filter changes other rules; write its exclusion into them",
        "action": "`action` was removed from Sigma; write each rule out",
    }.items():
        if key in document:
            raise UnsupportedError(what)


def _parsed(document: Mapping[str, Any]) -> SigmaRule:
    parsed = SigmaRule.from_dict(dict(document), collect_errors=True, policy=POLICY)
    if parsed.errors:
        raise UnsupportedError("; ".join(map(reason, parsed.errors)))
    return parsed


def _source(logsource: SigmaLogSource) -> AlertSource:
    """Return the table that a log source is."""
    named = declared.find(logsource.service) if logsource.service else None
    if named:
        return named
    for each in declared.sources():
        if logsource.service is None and logsource.category in each.categories:
            return each
    words = ", ".join(
        f"{name} {value}"
        for name in ("category", "product", "service")
        if (value := getattr(logsource, name))
    )
    raise UnsupportedError(f"no table has the log source {words}")


def _mapped(source: AlertSource) -> ProcessingPipeline:
    """Return pySigma's pipeline that gives fields the names of the table's columns."""
    names: dict[str | None, str | list[str]] = {}
    names.update(source.names)
    return ProcessingPipeline(
        items=[ProcessingItem(transformation=FieldMappingTransformation(names))]
    )


def own_fields(
    document: Mapping[str, Any], events: Callable[[object], tuple[Any, ...]]
) -> dict[str, Any]:
    """Return what is under our own key; ``events`` reads its examples.

    Raises:
        UnsupportedError: Something else is under it.
    """
    given = document.get(OWN)
    if given is None:
        return {}
    if not isinstance(given, dict) or set(given) - OWN_KEYS:
        raise UnsupportedError(f"`{OWN}` is a mapping of {', '.join(sorted(OWN_KEYS))}")
    return {
        "owner": str(given.get("owner") or ""),
        "runbook": str(given.get("runbook") or ""),
        "fires_on": events(given.get("fires_on")),
        "quiet_on": events(given.get("quiet_on")),
    }


def _events(given: object) -> tuple[Event, ...]:
    events = given or []
    if not isinstance(events, list) or not all(isinstance(each, dict) for each in events):
        raise UnsupportedError("examples are a list of events, each a mapping of fields")
    return tuple(events)


def reason(error: SigmaError) -> str:
    """Return what pySigma says of a rule, in a line."""
    return str(error).partition(" in /")[0].strip() or type(error).__name__


# Read one document as a threshold rule: Sigma's correlation of rules that are in the same folder.
#
# A rule that a correlation names raises no alert of its own, unless the correlation says ``generate: true``; that is what
# the specification says, because a single failed log-in is nothing that a person wants to know of.


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
        **own_fields(document, _read_correlation_events),
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


def _read_correlation_events(given: object) -> tuple[tuple[Event, ...], ...]:
    """Return examples: a list of lists of events."""
    examples = given or []
    if not isinstance(examples, list) or not all(
        isinstance(each, list) and all(isinstance(event, dict) for event in each)
        for each in examples
    ):
        raise UnsupportedError("examples of a correlation are a list of lists of events")
    return tuple(tuple(each) for each in examples)
