"""What other processes committed to a table after a version, read from its log commit by commit."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from strandline.engine.storage.commit_log import Action, Kind, actions
from strandline.engine.storage.place import Place


class LaterCommits:
    """The files that were added and removed after a version; each commit is read once."""

    def __init__(self, path: Place, version: int) -> None:
        """Begin after a version."""
        self._path = path
        self._read_until = version
        self.came: dict[str, str] = {}
        """By name, the files that were added and not removed since, each as its line in the log."""
        self.went: set[str] = set()
        """The names of those that were removed."""
        self.shaped_at = -1
        """The last version that changed the table's columns or properties."""

    def follow(self, version: int) -> None:
        """Read the commits up to a version."""
        for number in range(self._read_until + 1, version + 1):
            for action in actions(
                self._path, number, Kind.ADD, Kind.REMOVE, Kind.METADATA, Kind.PROTOCOL
            ):
                self._read(action, number)
        self._read_until = max(version, self._read_until)

    def _read(self, action: Action, version: int) -> None:
        match action.kind:
            case Kind.ADD:
                self.came[name(action.body)] = action.line
            case Kind.REMOVE:
                gone = name(action.body)
                self.came.pop(gone, None)
                self.went.add(gone)
            case _:
                self.shaped_at = version


def name(action: Mapping[str, Any]) -> str:
    """Return the name of a file as in Spark's ``_metadata.file_name``; it is unique within the table."""
    return unquote(str(action["path"])).rpartition("/")[2]
