"""The time of a commit, read from the commit itself: a file's own time may be that of a copy or of a restore."""

from datetime import UTC, datetime

from strandline.engine.storage.commit_log import Kind, actions, commit_file
from strandline.engine.storage.place import Place

FIELDS = ("inCommitTimestamp", "timestamp")
"""Milliseconds; the first exists where the table has Delta's in-commit timestamps, which never run backwards."""


def committed_at(path: Place, version: int) -> datetime:
    """Return when a version of a table was committed; the file's time where the commit holds none."""
    info = next((action.body for action in actions(path, version, Kind.INFO)), {})
    known = [info[name] for name in FIELDS if info.get(name) is not None]
    seconds = known[0] / 1000 if known else commit_file(path, version).modified_at().timestamp()
    return datetime.fromtimestamp(seconds, tz=UTC)


def modified_at(file: Place) -> datetime:
    """Return when a file was written, or copied; it says about when its commit was, and proves nothing."""
    return file.modified_at()
