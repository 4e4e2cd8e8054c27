"""Read a folder of YAML files that is not trusted: each file is its documents, or the reason why not.

A file is opened once and read up to a bound, so that a huge one costs no memory, and a pipe or a device does not block.
Links are followed to files inside of the folder only, as Kubernetes mounts them. YAML is looked at event by event before
anything is built from it: no alias, which is how a few lines become gigabytes, and neither deep nor endless.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sigma.rule.base import SigmaYAMLLoader

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
            yield File(name, documents=tuple(_documents(_read(path, folder))))
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


def _documents(text: str) -> list[dict[str, Any]]:
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
