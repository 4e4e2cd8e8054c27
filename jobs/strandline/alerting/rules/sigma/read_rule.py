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

from collections.abc import Callable, Mapping
from typing import Any, cast

from sigma.exceptions import SigmaError
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import RE2RegexEngine, RegexPattern
from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
from sigma.processing.transformations import FieldMappingTransformation
from sigma.rule import SigmaLogSource, SigmaRule

from strandline.alerting import declared
from strandline.alerting.rules.alert_rule import AlertRule, Event, Severity
from strandline.alerting.rules.sigma.tree import UnsupportedError, condition
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
