"""The proof that every event is accounted for, hop by hop, from the logs alone; no Spark, no broker.

Three things must agree: each entry with itself (read = good + duplicates + quarantined + dropped by the
watermark), each table with its sources (the rows read are the rows that they had, without a gap), and the ledger
with the rows in the table's files.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.core.table import Ingested, Judged, Recomputed, Table, Upserted
from jobs.engine.accounting.healed_rows import healed
from jobs.engine.quarantine.resolutions import REPLAY, released, unfinished, unfollowed
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry, entries
from jobs.engine.storage.ledger_tail import right_until
from jobs.engine.storage.locks import is_written
from jobs.engine.storage.open_table import live_rows, missing_files
from jobs.engine.storage.place import Place
from jobs.engine.storage.row_totals import Totals

Entries = Sequence[tuple[int, Entry]]

PATIENCE, AGAIN = 10.0, 0.2
"""Seconds to wait for a batch that is between its commits, and between two checks."""


@dataclass(slots=True, kw_only=True)
class Balance:
    """The balance sheet of one table."""

    table: str
    read: int = 0
    good: int = 0
    duplicates: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    dropped_by_watermark: int = 0
    healed: int = 0
    """Good rows that a backfill or a replay added; they were held back or dropped before."""
    rows: int = 0
    waiting: int = 0
    batches: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Return whether no row is missing and none is counted twice."""
        return not self.faults


def balance(table: Table, lake: Lake) -> Balance:
    """Return a table's balance sheet; each fault is named with its batch.

    A writer commits to the quarantine first and to the table later, and may do so while the books are read. So a fault
    counts only if it remains without a writer, or after a while.
    """
    sheet, deadline = _drawn(table, lake), time.monotonic() + PATIENCE
    while not sheet.balanced and time.monotonic() < deadline:
        has_writer = is_written(table, lake)
        sheet = _drawn(table, lake)
        if not has_writer:
            break
        time.sleep(AGAIN)
    return sheet


def _drawn(table: Table, lake: Lake) -> Balance:
    found = in_force(list(entries(lake.table(table))))
    sheet = Balance(table=table.id, batches=len(found), rows=live_rows(lake.table(table)))
    held: Counter[str] = Counter()
    for version, entry in found:
        sheet.read += entry.read
        sheet.good += entry.good
        sheet.duplicates += entry.duplicates
        sheet.dropped_by_watermark += entry.dropped_by_watermark
        held.update(entry.quarantined)
        sheet.faults += _entry_faults(version, entry)
    sheet.quarantined = {why: rows for why, rows in held.items() if rows}
    came = healed(entry for _, entry in found)
    sheet.healed = came.rows
    sheet.duplicates += came.dropped
    sheet.dropped_by_watermark -= came.dropped
    if isinstance(table, Ingested):
        sheet.faults += _offset_faults(found)
    else:
        sheet.faults += _source_faults(table, lake, found, sheet)
    sheet.faults += _row_faults(table, lake, found, sheet)
    sheet.faults += _drop_faults(found, sheet)
    return sheet


def waiting(table: Table, lake: Lake) -> int:
    """Return the number of rows of its sources that a table has not read yet, from the ledgers alone."""
    found = in_force(list(entries(lake.table(table))))
    return _waiting(table, lake, found, _inputs(table, lake, found))


def rows_until(path: Place, version: int) -> int:
    """Return the number of rows in a table at a version, from its ledger."""
    found = [each for each in entries(path) if each[0] <= version]
    return sum(entry.written for _, entry in in_force(found))


def read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the version of a source up to which a table has read it."""
    read = [entry.versions for _, entry in entries(lake.table(table))]
    return max((versions[source.id][1] for versions in read if source.id in versions), default=0)


def held_rows(table: Table, lake: Lake) -> int:
    """Return the number of records that a quarantine holds: all of them, less those that were released."""
    return live_rows(lake.quarantine(table)) - released(table, lake)


def in_force(found: Entries) -> Entries:
    """Return the entries since the last batch that replaced the whole table."""
    last = max((n for n, (_, entry) in enumerate(found) if entry.replaced), default=0)
    return found[last:]


def _entry_faults(version: int, entry: Entry) -> Iterator[str]:
    where = f"batch {entry.batch} (version {version})"
    if entry.read != entry.accounted:
        yield f"{where} read {entry.read} rows and accounts for {entry.accounted}"
    if entry.duplicates < 0 and not entry.is_backfill:
        yield f"{where} wrote {-entry.duplicates} rows more than it read"


def _drop_faults(found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that no row was dropped below the watermark; the law of disorder rules it out."""
    if sheet.dropped_by_watermark:
        version, first = next(each for each in found if each[1].dropped_by_watermark)
        yield (
            f"dropped {sheet.dropped_by_watermark} rows below the watermark, first in batch {first.batch} "
            f"(version {version}); a backfill of their range adds them"
        )


def _offset_faults(found: Entries) -> Iterator[str]:
    """Check that each batch begins where the one before it ended, and holds all records of its range."""
    ends: dict[str, int] = {}
    for version, entry in found:
        where = f"batch {entry.batch} (version {version})"
        for partition, (start, end) in entry.offsets.items():
            expected = ends.get(partition, start)
            if start != expected:
                yield f"{where} begins partition {partition} at {start}, not at {expected}"
            ends[partition] = end
        span = sum(end - start for start, end in entry.offsets.values())
        if span != entry.written + entry.without_record:
            yield f"{where} spans {span} offsets and holds {entry.written} records"


def _source_faults(table: Table, lake: Lake, found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that each batch has read all rows of its sources up to its last version; no version is read in part."""
    sources = _inputs(table, lake, found)
    sheet.waiting = _waiting(table, lake, found, sources)
    names = " and ".join(sources)
    read, held = 0, dict.fromkeys(sources, 0)
    for version, entry in found:
        read += entry.read
        if not entry.versions:
            continue
        held |= {name: sources[name].up_to(last) for name, (_, last) in entry.versions.items()}
        if read != sum(held.values()):
            yield (
                f"batch {entry.batch} (version {version}): {read} rows of {names} were read so far, "
                f"which holds {sum(held.values())} up to version {_lasts(entry)}"
            )


def _waiting(table: Table, lake: Lake, found: Entries, sources: Mapping[str, Totals]) -> int:
    if isinstance(table, Recomputed):
        return _unseen(table, lake, found)
    return _unread(found, sources) + _not_looked_up(table, lake)


def _unread(found: Entries, sources: Mapping[str, Totals]) -> int:
    """Return the number of rows appended to its sources since a stream last read them."""
    appended = sum(rows.total for rows in sources.values())
    return appended - sum(entry.read for _, entry in found)


def _unseen(table: Table, lake: Lake, found: Entries) -> int:
    """Return the number of rows added to or removed from its sources since a table last read them."""
    seen = found[-1][1].versions if found else {}
    return sum(
        _came_or_went(lake.table(source), seen.get(source.id, (0, -1))[1])
        for source in table.upstream
    )


def _not_looked_up(table: Table, lake: Lake) -> int:
    """Return the number of rows added to or removed from its dimension since a table last joined with it."""
    if table.dimension is None or not lake.exists(table):
        return 0
    return _came_or_went(lake.table(table.dimension.source), right_until(lake.table(table)))


def _came_or_went(path: Place, before: int) -> int:
    """Return the number of rows added to or removed from a table after a version."""
    return sum(
        entry.came + entry.gone if entry.is_backfill else entry.written
        for version, entry in entries(path)
        if version > before
    )


def _inputs(table: Table, lake: Lake, found: Entries) -> dict[str, Totals]:
    """Return the numbers of rows of each source, counted in the way in which this table reads it."""
    paths = {source.id: lake.table(source) for source in table.upstream}
    first = next((entry for _, entry in found if not entry.is_backfill), None)
    if isinstance(table, Recomputed) or (first and first.replaced and not first.promoted):
        return {name: Totals.all(path) for name, path in paths.items()}
    if first and first.whole:
        begun = {name: versions[0] for name, versions in first.versions.items()}
        return {
            name: Totals.continued(path, begun[name]) if name in begun else Totals.appended(path)
            for name, path in paths.items()
        }
    return {name: Totals.appended(path) for name, path in paths.items()}


def _lasts(entry: Entry) -> str:
    return ", ".join(str(last) for _, last in entry.versions.values())


def _row_faults(table: Table, lake: Lake, found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that the files hold the rows that the ledger counts as written."""
    for path in lake.books(table):
        yield from _missing_files(path, is_own=path == lake.table(table))
    changes = not isinstance(table, Ingested | Judged) and _rewrites(found, table)
    written = sum(entry.written for _, entry in found)
    if not changes and sheet.rows != written:
        yield f"the table holds {sheet.rows} rows, but {written} were written"
    if isinstance(table, Judged):
        yield from _quarantine_faults(table, lake, found, sheet)


def _quarantine_faults(table: Table, lake: Lake, found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that the quarantine holds the rows sent there and not released, and that no replay or backfill is half done."""
    held = sum(sheet.quarantined.values())
    kept = held_rows(table, lake)
    half, unled = unfinished(table, lake), unfollowed(table, lake, [entry for _, entry in found])
    if half is not None:
        again = f": `strandline quarantine replay {table.id}`" if half.mode == REPLAY else ""
        what = "replay" if half.mode == REPLAY else "backfill"
        yield f"the {what} from {half.since} to {half.until} was interrupted; repeat it{again}"
    elif held != kept:
        yield f"the quarantine holds {kept} rows, but {held} were sent there"
    if unled is not None:
        yield (
            f"the replay from {unled.since} to {unled.until} was interrupted before the tables above were computed "
            f"again; repeat it: `strandline quarantine replay {table.id}`"
        )


def _missing_files(path: Place, *, is_own: bool) -> Iterator[str]:
    """Yield the batches whose files are missing; only a version of the table itself is called a version."""
    for version, entry, name in missing_files(path):
        at = f"version {version}" if is_own else f"number {version} of its log"
        yield (
            f"batch {entry.batch} ({at}): its file {name} is gone from {path.parent.name}.{path.name}"
        )


def _rewrites(found: Entries, table: Table) -> bool:
    return isinstance(table, Upserted | Recomputed) or any(entry.replaced for _, entry in found)
