r"""Rules in Sigma's format: one document as an alert rule, and a folder of them that is not trusted.

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

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import yaml
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
from sigma.rule.base import SigmaYAMLLoader

from strandline.alerting import alert_rule as declared
from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    Comparison,
    Counted,
    Event,
    Part,
    Severity,
    ThresholdRule,
)
from strandline.alerting.sigma_tree import UnsupportedError, condition
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
        **own_fields(document, _lists_of_events),
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


def _lists_of_events(given: object) -> tuple[tuple[Event, ...], ...]:
    """Return examples: a list of lists of events."""
    examples = given or []
    if not isinstance(examples, list) or not all(
        isinstance(each, list) and all(isinstance(event, dict) for event in each)
        for each in examples
    ):
        raise UnsupportedError("examples of a correlation are a list of lists of events")
    return tuple(tuple(each) for each in examples)


# Read a folder of Sigma rules: those that run, and each of the others with its reason. One never stops the others.


# Read a folder of YAML files that is not trusted: each file is its documents, or the reason why not.
#
# A file is opened once and read up to a bound, so that a huge one costs no memory, and a pipe or a device does not block.
# Links are followed to files inside of the folder only, as Kubernetes mounts them. YAML is looked at event by event before
# anything is built from it: no alias, which is how a few lines become gigabytes, and neither deep nor endless.


LARGEST = 256 * 1024
MOST_FILES = 20_000
MOST_EVENTS = 20_000
DEEPEST = 20
SUFFIXES = {".yml", ".yaml"}


class UnreadableError(ValueError):
    """A file cannot be used; the text is the reason."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the folder: its path there, and its documents or the reason why it has none."""

    name: str
    documents: tuple[dict[str, Any], ...] = ()
    reason: str | None = None


def files(folder: Path) -> Iterator[File]:
    """Yield every YAML file of a folder and of the folders inside it, in the order of their names."""
    for path in _paths(folder):
        name = str(path.relative_to(folder))
        try:
            yield File(name, documents=tuple(_documents_in(_text_within(path, folder))))
        except UnreadableError as refused:
            yield File(name, reason=str(refused))


def _paths(folder: Path) -> list[Path]:
    """Return the YAML files; hidden folders are Kubernetes' own, and links to folders may lead in a circle."""
    found: list[Path] = []
    for place, below, names in os.walk(folder, followlinks=False):
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [
            Path(place, name)
            for name in (*names, *(n for n in below if Path(place, n).is_symlink()))
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
        ]
        if len(found) > MOST_FILES:
            raise UnreadableError(f"{folder} has more than {MOST_FILES:,} files")
    return sorted(found)


def _text_within(path: Path, folder: Path) -> str:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            raise UnreadableError("a link that leads out of the folder")
        file = os.open(real, os.O_RDONLY | os.O_NONBLOCK)
    except (
        OSError,
        RuntimeError,
    ) as error:  # a circle of links is a RuntimeError until Python 3.13
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UnreadableError(f"it cannot be opened: {reason}") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UnreadableError("it is no regular file")
        content = bytearray()
        while len(content) <= LARGEST and (chunk := os.read(file, LARGEST + 1 - len(content))):
            content += chunk
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror}") from error
    finally:
        os.close(file)
    if len(content) > LARGEST:
        raise UnreadableError(f"it is larger than {LARGEST // 1024} KiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is no UTF-8: byte {error.start}") from error


def _documents_in(text: str) -> list[dict[str, Any]]:
    try:
        _refuse_bombs(text)
        found = [each for each in yaml.load_all(text, SigmaYAMLLoader) if each is not None]
    except yaml.YAMLError as error:
        raise UnreadableError(f"it is no YAML: {_first(error)}") from error
    except (
        ValueError,
        TypeError,
        OverflowError,
    ) as error:  # a date such as 2026-13-45, a key that is a list
        raise UnreadableError(f"it is no YAML: {_first(error)}") from error
    if not found:
        raise UnreadableError("it is empty")
    for each in found:
        if not isinstance(each, dict) or not all(isinstance(key, str) for key in each):
            raise UnreadableError("a document in it is no mapping of names")
    return found


def _refuse_bombs(text: str) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, yaml.CSafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableError(
                "it has a YAML alias, which can grow without bound; write the value out"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise UnreadableError(f"it is nested more than {DEEPEST} deep")
        if number > MOST_EVENTS:
            raise UnreadableError(f"it has more than {MOST_EVENTS:,} values")


def _first(error: Exception) -> str:
    """Return an error in one line, with the place where the parser knows it."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem}, line {mark.line + 1}" if mark else str(problem)


CORRELATION = "correlation"


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A file, or a rule in it, that does not run, and why."""

    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder has."""

    rules: tuple[AlertRule, ...]
    refused: tuple[RefusedRule, ...]
    thresholds: tuple[ThresholdRule, ...] = ()

    @property
    def every(self) -> list[AlertRule | ThresholdRule]:
        """Return the rules of both kinds."""
        return [*self.rules, *self.thresholds]


def read_folder(folder: Path) -> Folder:
    """Read every rule of a folder.

    Args:
        folder: Where the YAML files are, also in folders inside it.

    Raises:
        UnreadableError: It has too many files.
    """
    read = _Reading()
    documents = list(_documents(folder, read.refused))
    for origin, document in documents:
        if CORRELATION not in document:
            read.rule(document, origin)
    for origin, document in documents:
        if CORRELATION in document:
            read.threshold(document, origin)
    return Folder(
        tuple(rule for rule in read.rules.values() if rule.id not in read.silent - read.loud),
        tuple(sorted(read.refused, key=lambda each: each.origin)),
        tuple(read.thresholds.values()),
    )


def _documents(folder: Path, refused: list[RefusedRule]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each document with its origin, and note the files that have none."""
    for file in files(folder):
        if file.reason is not None:
            refused.append(RefusedRule(file.name, file.reason))
        for number, document in enumerate(file.documents, 1):
            yield (file.name if len(file.documents) == 1 else f"{file.name}#{number}"), document


@dataclass(slots=True)
class _Reading:
    """What was read so far: rules and thresholds by id, and the ids that correlations name."""

    rules: dict[str, AlertRule] = field(default_factory=dict)
    thresholds: dict[str, ThresholdRule] = field(default_factory=dict)
    refused: list[RefusedRule] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    loud: set[str] = field(default_factory=set)

    def rule(self, document: Mapping[str, Any], origin: str) -> None:
        """Read a pattern rule."""
        try:
            rule = read_rule(document, origin)
        except UnsupportedError as error:
            self.refuse(origin, str(error))
            return
        if rule.id in self.rules:
            self.refuse(origin, f"its id {rule.id} is that of {self.rules[rule.id].origin}")
            return
        self.rules[rule.id] = rule
        for name in names_of(document):
            self.names.setdefault(name, rule.id)

    def threshold(self, document: Mapping[str, Any], origin: str) -> None:
        """Read a correlation; all pattern rules were read."""
        named = {name: self.rules[id_] for name, id_ in self.names.items() if id_ in self.rules}
        try:
            found = read_correlation(document, origin, named)
        except UnsupportedError as error:
            self.refuse(origin, str(error))
            return
        other = self.rules.get(found.id) or self.thresholds.get(found.id)
        if other:
            self.refuse(origin, f"its id {found.id} is that of {other.origin}")
            return
        self.thresholds[found.id] = found
        ids = {part.rule.id for part in found.parts}
        self.silent |= ids
        if parts_alone(document):
            self.loud |= ids

    def refuse(self, origin: str, reason: str) -> None:
        """Note why a rule does not run."""
        self.refused.append(RefusedRule(origin, reason))
