"""Find an entry of a ledger without reading all of them: offsets and versions only grow from entry to entry.

A search opens about twenty commits of a million. An entry without the wanted figure (a backfill, maintenance) is passed
over towards the older side. A large import is thousands of such entries one behind the other: they are passed over at
once, by what is written beside the log.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, entry_at, is_imported, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.shelf.import_notes import ImportSlices


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


# Find the commit that took in an offset, and the batch of a table that read a version of its source, by the ledger alone.
#
# A row says which offset it came from, so its batch is found also where its file was put together with others.


BEGUN = 3
"""Commits with which a table begins: it is declared, and its first batch has what was imported before."""


def commit_with(bronze: Place, part: str, offset: int) -> tuple[int, Entry] | None:
    """Return the commit of bronze whose range of a topic partition contains an offset; None if none does."""
    if is_imported(part):
        return bringing_commit(bronze, part, offset)

    def read_until(entry: Entry) -> int | None:
        return entry.offsets[part][1] if part in entry.offsets else None

    found = first_reaching(bronze, offset + 1, read_until)
    is_in = found is not None and offset >= found[1].offsets[part][0]
    return found if is_in else None


def reading_batch(table: Place, source: str, version: int) -> tuple[int, Entry] | None:
    """Return the batch of a table that read a version of a source, by the source's name; None if none has."""

    def read_until(entry: Entry) -> int | None:
        return entry.versions[source][1] if source in entry.versions else None

    in_force = max(sums_of(table).replaced_at, 0)
    found = first_reaching(table, version, read_until, in_force)
    if found is None:
        return None
    entry = found[1]
    has_read = version >= entry.versions[source][0] or entry.whole or entry.replaced
    return found if has_read else None


def bringing_commit(table: Place, part: str, offset: int) -> tuple[int, Entry] | None:
    """Return the commit that brought an imported row to bronze, or to a table that judges it; None if none has."""
    sums = sums_of(table)
    if offset >= sums.imported.get(part, 0):
        return None
    in_force = max(sums.replaced_at, 0)
    slice_ = ImportSlices(table, part).of(offset)
    hints = (in_force, max(slice_.after + 1, in_force)) if slice_ else (in_force,)
    for begin, most in zip(hints, (BEGUN, sums.version), strict=False):
        for version in range(begin, min(begin + most, sums.version + 1)):
            entry = entry_at(table, version)
            first, end = entry.imported.get(part, (0, 0)) if entry else (0, 0)
            if entry and first <= offset < end:
                return version, entry
            if end > offset:
                break

    def brought_until(entry: Entry) -> int | None:
        return entry.imported[part][1] if part in entry.imported else None

    return first_reaching(table, offset + 1, brought_until, in_force)


def batch_of(table: Place, bronze: Place, part: str, offset: int) -> int | None:
    """Return the version with which a table read an offset of its bronze table; None if it has not."""
    if is_imported(part):
        found = bringing_commit(table, part, offset)
        return found[0] if found else None
    taken = commit_with(bronze, part, offset)
    read = reading_batch(table, f"{bronze.parent.name}.{bronze.name}", taken[0]) if taken else None
    return read[0] if read else None
