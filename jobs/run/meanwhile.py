"""What others committed to a table since somebody looked at it, read from its log commit by commit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jobs.run.ledger import commit_file


class Meanwhile:
    """The files that came and went after a version; each commit is read once."""

    def __init__(self, path: Path, version: int) -> None:
        """Begin behind a version."""
        self._path = path
        self._read_until = version
        self.came: dict[str, str] = {}
        """By name, the files that were added and are still there, each as the log says it."""
        self.went: set[str] = set()
        """The names of those that were taken away."""
        self.shaped_at = -1
        """The last version that changed the table's columns or properties."""

    def follow(self, version: int) -> None:
        """Add what was committed up to a version."""
        for number in range(self._read_until + 1, version + 1):
            with commit_file(self._path, number).open() as log:
                for line in log:
                    self._read(line.strip(), number)
        self._read_until = max(version, self._read_until)

    def _read(self, line: str, version: int) -> None:
        if line.startswith('{"add":'):
            self.came[name(json.loads(line)["add"])] = line
        elif line.startswith('{"remove":'):
            gone = name(json.loads(line)["remove"])
            self.came.pop(gone, None)
            self.went.add(gone)
        elif line.startswith(('{"metaData":', '{"protocol":')):
            self.shaped_at = version


def name(action: Mapping[str, Any]) -> str:
    """Return the name of a file, which no other file of the table has, as Spark says it."""
    return Path(unquote(action["path"])).name
