"""The data files in a table's folder that no commit names, how large and how old files are, and the disk below.

What commits removed was deleted up to a version (jobs/strandline/engine/storage/dead_files.py), so only the latest version and the commits
since then are read, and not all that ever were.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import unquote

from strandline.engine.storage.commit_log import Kind, actions, is_commit, log_of
from strandline.engine.storage.dead_files import swept
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.live_files import live_files
from strandline.engine.storage.place import Place


def uncommitted(path: Place) -> Iterator[Place]:
    """Yield the data files of a table that no version added, sorted."""
    if not is_commit(path, 0):  # no table of ours, or its first commits are lost: unknown
        return
    named = {unquote(each) for each in (*live_files(path).files, *_named_since(path))}
    log = f"{log_of(path).name}/"
    for place in sorted(path.files()):
        name = place.below(path)
        if name.endswith(".parquet") and not name.startswith(log) and name not in named:
            yield place


def _named_since(path: Place) -> Iterator[str]:
    """Yield the files that the commits name whose removed files are still there."""
    state = swept(path)
    for version in (*state.later, *range(state.version + 1, latest_version(path) + 1)):
        for action in actions(path, version, Kind.ADD, Kind.REMOVE):
            yield action.body["path"]


def touched_at(place: Place) -> datetime:
    """Return when a file or a folder was last written, or moved to its place."""
    if not place.is_local:  # where a folder has no time of its own
        files = [place] if place.is_file() else place.files()
        return max((file.modified_at() for file in files), default=datetime.min.replace(tzinfo=UTC))
    stat = place.local.stat()
    return datetime.fromtimestamp(max(stat.st_mtime, stat.st_ctime), tz=UTC)


def size_of(place: Place) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if place.is_local and place.local.is_file():
        return place.size()
    return sum(file.size() for file in place.files())


def free_bytes(place: Place) -> int | None:
    """Return how many bytes can be written into a folder; None for a store, which does not say."""
    return shutil.disk_usage(place.local).free if place.is_local else None


def is_same_disk(one: Place, other: Place) -> bool:
    """Return whether two folders are on one file system, so that a file can have a name in both."""
    if not (one.is_local and other.is_local):
        return False
    return one.local.stat().st_dev == other.local.stat().st_dev
