"""Read a folder of Sigma rules: those that run, and each of the others with its reason. One never stops the others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.sigma.files import files
from strandline.alerting.rules.sigma.read_correlation import names_of, parts_alone, read_correlation
from strandline.alerting.rules.sigma.read_rule import read_rule
from strandline.alerting.rules.sigma.tree import UnsupportedError
from strandline.alerting.rules.threshold_rule import ThresholdRule

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
