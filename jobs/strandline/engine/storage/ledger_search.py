"""Find an entry of a ledger without reading all of them: offsets and versions only grow from entry to entry.

A search opens about twenty commits of a million. An entry without the wanted figure (a backfill, maintenance) is passed
over towards the older side. A large import is thousands of such entries one behind the other: they are passed over at
once, by what is written beside the log.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.import_slices import ImportSlices
from strandline.engine.storage.ledger import Entry, entry_at, latest_version
from strandline.engine.storage.place import Place


def newest_first(path: Place) -> Iterator[tuple[int, Entry]]:
    """Yield version and entry of a table's commits, each read only when it is asked for."""
    for version in range(latest_version(path), -1, -1):
        entry = entry_at(path, version)
        if entry is not None:
            yield version, entry


def first_reaching(
    path: Place, wanted: int, figure: Callable[[Entry], int | None], since: int = 0
) -> tuple[int, Entry] | None:
    """Return the first entry from a version on whose figure is at least the wanted one; None if none is.

    Args:
        path: The table.
        wanted: What the figure must reach.
        figure: A figure of an entry that never falls from one to the next; None for an entry that has none.
        since: The first version to consider.
    """
    low, high = since, latest_version(path)
    found: tuple[int, Entry] | None = None
    while low <= high:
        middle = (low + high) // 2
        near = _at_or_before(path, middle, low, figure)
        if near is None:
            low = middle + 1
            continue
        version, entry, reached = near
        if reached >= wanted:
            found, high = (version, entry), version - 1
        else:
            low = middle + 1
    return found


def _at_or_before(
    path: Place, version: int, low: int, figure: Callable[[Entry], int | None]
) -> tuple[int, Entry, int] | None:
    while version >= low:
        entry = entry_at(path, version)
        reached = figure(entry) if entry is not None else None
        if entry is not None and reached is not None:
            return version, entry, reached
        version = _before_run(path, version, entry) if entry is not None else version - 1
    return None


def _before_run(path: Place, version: int, entry: Entry) -> int:
    """Return the version before an entry, and before the slices of an import that end with it."""
    for part, (first, _) in entry.imported.items():
        before = ImportSlices(path, part).before_run(first, version)
        if before is not None:
            return before
    return version - 1


def nearest_versions(path: Place, moment: datetime) -> Iterator[int]:
    """Yield all versions of a table, beginning with those that were committed about a time."""
    low, high = 0, latest_version(path)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if committed_at(path, middle) >= moment else (middle + 1, high)
    latest = latest_version(path)
    for distance in range(latest + 1):
        later, earlier = low + distance, low - distance - 1
        yield from (version for version in (later, earlier) if 0 <= version <= latest)
