"""Find the commit that took in an offset, and the batch of a table that read a version of its source, by the ledger alone.

A row says which offset it came from, so its batch is found also where its file was put together with others.
"""

from strandline.engine.storage.import_marks import is_imported
from strandline.engine.storage.import_slices import ImportSlices
from strandline.engine.storage.ledger import Entry, entry_at
from strandline.engine.storage.ledger_search import first_reaching
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.place import Place

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
