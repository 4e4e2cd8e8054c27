"""The newest version of a table on an object store, by one listing that begins at the last one that is known.

Each look at a key is a request there, so versions are not counted up one by one as in a folder. The log is listed from the newest
version on that this process has seen, which is one request, whatever the age of the table.
"""

import re
from collections.abc import Callable

from jobs.engine.storage.commit_log import commit_file, log_of, versions
from jobs.engine.storage.place import Place

COMMIT = re.compile(r"(\d{20})\.json")

_LATEST: dict[Place, int] = {}
"""The newest version of each table that this process has seen: one number a table."""


def latest_listed(path: Place, checkpoint: Callable[[Place], int | None]) -> int:
    """Return the newest version of a table, or -1 when there is no table.

    Args:
        path: The table.
        checkpoint: Returns the version of Delta's newest checkpoint, from which a process begins.
    """
    known = _LATEST.get(path)
    found = _from(path, known) if known is not None else None
    if found is None:  # the first look, or the table was made anew
        found = _from(path, checkpoint(path) or 0)
    if found is None:
        _LATEST.pop(path, None)
        return max(versions(path), default=-1)
    _LATEST[path] = found
    return found


def _from(path: Place, first: int) -> int | None:
    """Return the newest version that follows one without a gap; None where that one is not in the log."""
    names = log_of(path).names_from(commit_file(path, first).name)
    listed = [int(found[1]) for name in names if (found := COMMIT.fullmatch(name))]
    if not listed or listed[0] != first:
        return None
    return max(version for number, version in enumerate(listed) if version == first + number)
