"""The actions of a commit, as Delta writes them: one JSON object a line, named for its kind.

Only lines of the wanted kinds are parsed. A commit of a busy table has hundreds of ``add`` lines, and a reader that looks
for its schema needs none of them.

A commit is read alike whether it is in the log or was moved out of it (jobs/strandline/engine/storage/old_commits.py).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strandline.core.errors import DamagedError
from strandline.engine.storage.old_commits import PACKED, is_old, old_commit
from strandline.engine.storage.place import Place


class Kind(StrEnum):
    """What a line of a commit does, as Delta names it."""

    ADD = "add"
    REMOVE = "remove"
    METADATA = "metaData"
    PROTOCOL = "protocol"
    INFO = "commitInfo"


@dataclass(frozen=True, slots=True)
class Action:
    """One line of a commit.

    Args:
        kind: What it does.
        body: To what.
        line: The line itself, which a later commit may repeat.
    """

    kind: Kind
    body: Mapping[str, Any]
    line: str


def log_of(path: Place) -> Place:
    """Return the folder of a table's log."""
    return path / "_delta_log"


def commit_file(path: Place, version: int) -> Place:
    """Return the file of one commit of a table's log."""
    return log_of(path) / f"{version:020d}.json"


def sum_file(path: Place, version: int) -> Place:
    """Return the file of a version's checksum."""
    return log_of(path) / f"{version:020d}.crc"


def log_files(path: Place, version: int) -> Iterator[Place]:
    """Yield the files by which a reader finds a version: its commit, and the checkpoint that Delta writes at some."""
    yield commit_file(path, version)
    checkpoint = log_of(path) / f"{version:020d}.checkpoint.parquet"
    if checkpoint.is_file():
        yield checkpoint
        yield log_of(path) / "_last_checkpoint"


def is_commit(path: Place, version: int) -> bool:
    """Return whether a table has a version."""
    return commit_file(path, version).is_file() or is_old(path, version)


def commit_text(path: Place, version: int) -> str | None:
    """Return the text of a commit; None where a table has no such version."""
    text = commit_file(path, version).text()
    # A commit is moved between the two looks at most once, and it is in its pack before it leaves the log.
    return text if text is not None else old_commit(path, version)


def versions(path: Place) -> list[int]:
    """Return the versions of a table; its log is listed, which holds other files as well."""
    in_log = logged_versions(path)
    if not in_log or not is_old(path, in_log[0] - 1):
        return in_log
    first = in_log[0] - 1
    while is_old(path, first - PACKED):
        first -= PACKED
    return [*range(first - first % PACKED, in_log[0]), *in_log]


def logged_versions(path: Place) -> list[int]:
    """Return the versions whose commits are in the log itself, as Delta sees it."""
    names = (name.removesuffix(".json") for name in log_of(path).names() if name.endswith(".json"))
    return [int(name) for name in names if name.isdigit()]


def actions(path: Place, version: int, *kinds: Kind) -> Iterator[Action]:
    """Yield the actions of some kinds in one version of a table, in the order of its log.

    Raises:
        FileNotFoundError: The table has no such version.
        DamagedError: Its commit is torn.
    """
    starts = tuple(f'{{"{kind}":' for kind in kinds)
    last = ""
    try:
        for line in _lines(path, version):
            last = line.strip() or last
            if line.startswith(starts):
                ((kind, body),) = json.loads(line).items()
                yield Action(Kind(kind), body, line.strip())
    except ValueError as error:  # bytes that are no text are among them
        raise torn(path, version) from error
    # Cut within a line of another kind, or a power cut left a file without a byte, or of zeros.
    if not last.endswith("}"):
        raise torn(path, version)


def torn(path: Place, version: int) -> DamagedError:
    """Return the error about a commit that cannot be read."""
    table = owner(path)
    return DamagedError(
        f"{table} is damaged: its commit {commit_file(path, version)} is torn",
        hint=f"`strandline mend {table}` takes it out of the log and says what is to be computed again; all other tables "
        "go on meanwhile.",
        table=table,
        file=str(commit_file(path, version)),
    )


def owner(path: Place) -> str:
    """Return the name of the table whose folder this is, or beside which it is kept: a quarantine is a silver table's."""
    layer = path.parent.name
    return f"{'silver' if layer in {'quarantine', 'resolutions'} else layer}.{path.name}"


def _lines(path: Place, version: int) -> Iterator[str]:
    """Yield the lines of a commit; the first of a large one is there before the others are read.

    Raises:
        FileNotFoundError: A table has no such version.
    """
    file = commit_file(path, version)
    try:
        if file.is_local:
            with file.local.open() as log:
                yield from log
            return
    except FileNotFoundError:
        pass
    text = commit_text(path, version)
    if text is None:
        raise FileNotFoundError(str(file))
    yield from text.split("\n")


def added_file(line: str) -> Mapping[str, Any]:
    """Return the file that a line of the log adds: its path, partition and statistics."""
    return dict(json.loads(line)["add"])
