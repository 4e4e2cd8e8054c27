"""The time of a commit, read from the commit itself: a file's own time is that of the copy or of the restore."""

from datetime import UTC, datetime
from pathlib import Path

from jobs.engine.storage.commit_log import INFO, actions_in, commit_file

FIELDS = ("inCommitTimestamp", "timestamp")
"""Milliseconds; the first exists where the table has Delta's in-commit timestamps, which never run backwards."""


def committed_at(path: Path, version: int) -> datetime:
    """Return when a version of a table was committed; the file's time where the commit holds none."""
    file = commit_file(path, version)
    info = next((action.body for action in actions_in(file, INFO)), {})
    known = [info[name] for name in FIELDS if info.get(name) is not None]
    seconds = known[0] / 1000 if known else file.stat().st_mtime
    return datetime.fromtimestamp(seconds, tz=UTC)
