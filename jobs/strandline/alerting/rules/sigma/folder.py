"""Read a folder of Sigma rules: those that run, and each of the others with its reason. One never stops the others."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from sigma.rule.base import SigmaYAMLLoader

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.sigma.read_rule import (
    names_of,
    parts_alone,
    read_correlation,
    read_rule,
)
from strandline.alerting.rules.sigma.tree import UnsupportedError
from strandline.alerting.rules.threshold_rule import ThresholdRule

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
            yield File(name, documents=tuple(_files_documents(_read(path, folder))))
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


def _read(path: Path, folder: Path) -> str:
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


def _files_documents(text: str) -> list[dict[str, Any]]:
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
