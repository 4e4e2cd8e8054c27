"""Delete the files of a table that its latest version does not have and that no reader can still need.

A file that a commit removed stays on the disk for three kinds of reader: a stream that has not read the commit which added
it, a query that runs since before, and an operator who undoes a promotion. So a commit's removed files are deleted once every
stream has read past it and it is old enough; what a promotion removed is kept for longer.

The commits are walked once, in their order. How far the walk came is kept in a small file beside the snapshots of the
ledger, so a look costs what is new. A file that a later commit added again, as the undo of a promotion does, is live and
stays.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from urllib.parse import unquote

from strandline.engine.storage.commit_log import Kind, actions, is_commit
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.ledger import entry_at
from strandline.engine.storage.ledger_snapshot import FOLDER, name_of
from strandline.engine.storage.live_files import live_files
from strandline.engine.storage.place import Place

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
