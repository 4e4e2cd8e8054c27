"""The actions of a commit, as Delta writes them: one JSON object a line, named for its kind.

Only lines of the wanted kinds are parsed. A commit of a busy table has hundreds of ``add`` lines, and a reader that looks
for its schema needs none of them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADD, REMOVE, METADATA, PROTOCOL, INFO = "add", "remove", "metaData", "protocol", "commitInfo"


@dataclass(frozen=True, slots=True)
class Action:
    """One line of a commit.

    Args:
        kind: What it does.
        body: To what.
        line: The line itself, which a later commit may repeat.
    """

    kind: str
    body: Mapping[str, Any]
    line: str


def commit_file(path: Path, version: int) -> Path:
    """Return the file of one commit of a table's log."""
    return path / "_delta_log" / f"{version:020d}.json"


def actions(path: Path, version: int, *kinds: str) -> Iterator[Action]:
    """Yield the actions of some kinds in one version of a table, in the order of its log."""
    return actions_in(commit_file(path, version), *kinds)


def actions_in(file: Path, *kinds: str) -> Iterator[Action]:
    """Yield the actions of some kinds in the file of a commit, in its order."""
    starts = tuple(f'{{"{kind}":' for kind in kinds)
    with file.open() as log:
        for line in log:
            if line.startswith(starts):
                ((kind, body),) = json.loads(line).items()
                yield Action(kind, body, line.strip())
