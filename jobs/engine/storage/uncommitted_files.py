"""The data files in a table's folder that no commit ever named, and how large and how old files are."""

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import unquote

from jobs.engine.storage.commit_log import Kind, actions, is_commit, log_of, versions
from jobs.engine.storage.place import Place


def uncommitted(path: Place) -> Iterator[Place]:
    """Yield the data files of a table that no version ever added, sorted."""
    if not is_commit(path, 0):  # no table of ours, or its log was cut: unknown
        return
    named = {
        unquote(each.body["path"])
        for version in versions(path)
        for each in actions(path, version, Kind.ADD)
    }
    for file in sorted(path.local.rglob("*.parquet")):
        place = Place(str(file))
        if log_of(path).local not in file.parents and place.below(path) not in named:
            yield place


def touched_at(place: Place) -> datetime:
    """Return when a file or a folder was last written, or moved to its place."""
    stat = place.local.stat()
    return datetime.fromtimestamp(max(stat.st_mtime, stat.st_ctime), tz=UTC)


def size_of(place: Place) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if not place.local.is_dir():
        return place.local.stat().st_size
    return sum(file.stat().st_size for file in place.local.rglob("*") if file.is_file())
