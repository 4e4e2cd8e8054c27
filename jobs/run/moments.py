"""When a version was committed, as the commit itself says: a file's own time is that of the copy or of the restore."""

import json
from datetime import UTC, datetime
from pathlib import Path

from jobs.run.ledger import commit_file

SAID = ("inCommitTimestamp", "timestamp")
"""Milliseconds; the first is there where the table asks Delta for one that never runs backwards."""


def committed_at(path: Path, version: int) -> datetime:
    """Return when a version of a table was committed; by the file's time only where the commit says nothing."""
    file = commit_file(path, version)
    with file.open() as log:
        line = next((line for line in log if line.startswith('{"commitInfo":')), None)
    info = json.loads(line)["commitInfo"] if line else {}
    known = [info[name] for name in SAID if info.get(name) is not None]
    seconds = known[0] / 1000 if known else file.stat().st_mtime
    return datetime.fromtimestamp(seconds, tz=UTC)
