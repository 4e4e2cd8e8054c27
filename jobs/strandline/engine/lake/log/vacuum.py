"""What no reader of a table needs any more: old commits leave its log, dead files are deleted, files of no commit are named.

Keep a table's log short for Delta: move the commits before a checkpoint out of it, and bring them back when asked.

Delta needs the newest checkpoint and the commits after it. A stream needs those that it has not read, and a version that
is read by its number needs a checkpoint before it. So the log is cut at the newest checkpoint that none of them needs to
look behind, and never at the newest of all, because another process may just read the one before.

The commits are packed first and removed from the log then, so a process that is killed in between leaves them in both
places, where they are the same; the next cut goes on. Where the log was cut, no reader of the ledger notices: it finds
them in their packs (jobs/strandline/engine/lake/log/commit_log.py).

Why not Delta's own clean-up: it goes by age, in days, and a stream of one second makes 86,400 commits a day, each of
which every batch lists three times; and what it removes is gone, while the ledger is these commits.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from urllib.parse import unquote

from strandline.engine.lake.log.commit_log import (
    PACKED,
    Kind,
    actions,
    commit_file,
    commit_text,
    committed_at,
    is_commit,
    is_old,
    log_of,
    logged_versions,
    old_commit,
    write_pack,
)
from strandline.engine.lake.log.ledger import entry_at, latest_version
from strandline.engine.lake.log.ledger_sums import FOLDER, name_of
from strandline.engine.lake.log.log_actions import live_files, table_id
from strandline.engine.lake.place import Place

CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint(\..+)?\.parquet")
PARQUET = b"PAR1"
"""The last bytes of a Parquet file."""
SUM = re.compile(r"(?P<version>\d{20})\.crc")


def cut(path: Place, needed: int, *, go: bool = True) -> int:
    """Move the commits out of a table's log that neither Delta nor a reader needs there; return how many.

    Args:
        path: The table.
        needed: The first version that a reader has not read; the one before it stays readable by its number.
        go: Whether to move them; otherwise they are only counted.
    """
    names = log_of(path).names()
    older = [version for version in _checkpoints(path, names)[:-1] if version < needed]
    if not older:
        return 0
    first = older[-1] - older[-1] % PACKED
    packs = [*_packs(path, logged_versions(path), first)]
    if go:
        for pack in packs:
            _move(path, pack)
        for name in names:
            found = CHECKPOINT.fullmatch(name) or SUM.fullmatch(name)
            if found and int(found["version"]) < first:
                (log_of(path) / name).remove()
    return sum(map(len, packs))


def bring_back(path: Place, first: int) -> int:
    """Write the commits from a version on into the log again, where they were moved out of it; return how many.

    A stream that begins there asks Delta for them. The next cut removes them once it has read them.
    """
    logged = logged_versions(path)
    if not logged or first >= logged[0]:
        return 0
    # The newest first: a reader that looks meanwhile finds no gap in the log.
    for version in range(logged[0] - 1, first - 1, -1):
        text = old_commit(path, version)
        if text is None:
            return logged[0] - 1 - version
        commit_file(path, version).create(text)
    return logged[0] - first


def begins_at(path: Place) -> int:
    """Return the first version whose commit is in the log itself."""
    if commit_file(path, 0).exists():
        return 0
    return min(logged_versions(path), default=0)


def _checkpoints(path: Place, names: list[str]) -> list[int]:
    """Return the versions of Delta's checkpoints; one that a machine left torn when it lost its power is none."""
    found = {name: match for name in names if (match := CHECKPOINT.fullmatch(name))}
    torn = {match["version"] for name, match in found.items() if not _is_whole(log_of(path) / name)}
    return sorted({int(each["version"]) for each in found.values() if each["version"] not in torn})


def _is_whole(file: Place) -> bool:
    return file.last_bytes(len(PARQUET)) == PARQUET


def _packs(path: Place, logged: list[int], first: int) -> Iterator[list[int]]:
    """Yield the versions before the first one that stays, pack by pack."""
    before = (version for version in logged if version < first)
    for _, versions in groupby(before, lambda version: version // PACKED):
        pack = [*versions]
        # A part of a pack is in the log where a process was killed, or where a reader had it brought back.
        if len(pack) == PACKED or is_old(path, pack[0]):
            yield pack


def _move(path: Place, pack: list[int]) -> None:
    if not is_old(path, pack[0]):
        texts = {
            version: text for version in pack if (text := commit_text(path, version)) is not None
        }
        write_pack(path, texts)
    for version in pack:
        commit_file(path, version).remove()


# Delete the files of a table that its latest version does not have and that no reader can still need.
#
# A file that a commit removed stays on the disk for three kinds of reader: a stream that has not read the commit which added
# it, a query that runs since before, and an operator who undoes a promotion. So a commit's removed files are deleted once every
# stream has read past it and it is old enough; what a promotion removed is kept for longer.
#
# The commits are walked once, in their order. How far the walk came is kept in a small file beside the snapshots of the
# ledger, so a look costs what is new. A file that a later commit added again, as the undo of a promotion does, is live and
# stays.


KEEP = timedelta(days=1)
"""How long a removed file is kept for queries that run."""

UNDOABLE = timedelta(days=7)
"""How long a promotion can be undone: for so long the files of its sources are kept as well."""

EXPLAINED = timedelta(days=30)
"""How long the rows that a repair or a promotion removed are kept, so that ``why`` finds them."""


@dataclass(slots=True)
class Swept:
    """How far the files of a table were deleted.

    Args:
        table: The id that Delta gave to the table.
        version: The last version whose removed files were looked at; -1 for none.
        later: Versions before it whose removed files are kept for longer: those of repairs and promotions.
        deletes: Whether any file was deleted, so the table cannot be read from its first commit on any more.
    """

    table: str
    version: int = -1
    later: list[int] = field(default_factory=list)
    deletes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A file that is no longer needed.

    Args:
        file: The file.
        size: Its bytes.
    """

    file: Place
    size: int


def swept_file(path: Place) -> Place:
    """Return the file that records how far a table was swept."""
    return path.parent.parent / FOLDER / f"{name_of(path)}.swept.json"


def swept(path: Place) -> Swept:
    """Return how far the files of a table were deleted; of another table of its name nothing was."""
    own = table_id(path)
    try:
        found = Swept(**json.loads(swept_file(path).text() or ""))
    except (ValueError, TypeError):  # none, or torn
        return Swept(table=own)
    return found if found.table == own else Swept(table=own)


def sweep(
    path: Place, needed: int, now: datetime, keep: timedelta = KEEP, *, go: bool = True
) -> Iterator[Dead]:
    """Delete what is no longer needed, and yield it.

    Args:
        path: The table.
        needed: The first version that a stream may still read.
        now: The present.
        keep: How long removed files are kept.
        go: Whether to delete; otherwise they are only yielded.
    """
    state = swept(path)
    due, later, last = _due(path, state, needed, now, keep)
    if not due and last == state.version:
        return
    live = live_files(path).files.keys()
    for version in due:
        for action in actions(path, version, Kind.REMOVE):
            file = path / unquote(action.body["path"])
            if action.body["path"] in live or not file.exists():
                continue
            yield Dead(file=file, size=file.size())
            if go:
                _delete(path, file, state)
    if go:
        state.version, state.later = last, later
        swept_file(path).put(json.dumps(asdict(state)))


def _delete(path: Place, file: Place, state: Swept) -> None:
    if not state.deletes:
        # Known before the first file is gone: a new stream begins with a snapshot from now on.
        state.deletes = True
        swept_file(path).put(json.dumps(asdict(state)))
    file.remove()


def _due(
    path: Place, state: Swept, needed: int, now: datetime, keep: timedelta
) -> tuple[list[int], list[int], int]:
    """Return the versions whose removed files go, those whose files stay for longer, and the last version looked at."""
    due, later = list[int](), list[int]()
    version = state.version
    for kept in state.later:
        (due if now - committed_at(path, kept) > max(keep, EXPLAINED) else later).append(kept)
    while version + 1 < needed and is_commit(path, version + 1):
        if now - committed_at(path, version + 1) <= keep:
            break
        version += 1
        entry = entry_at(path, version)
        (later if entry is not None and entry.is_passed_over else due).append(version)
    return due, later, version


# The data files in a table's folder that no commit names, how large and how old files are, and the disk below.
#
# What commits removed was deleted up to a version, so only the latest version and the commits
# since then are read, and not all that ever were.


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
