"""The proof that every event is accounted for, hop by hop, from the logs alone; no Spark, no broker.

Three things must agree: each entry with itself (read = good + duplicates + quarantined + dropped by the
watermark), each table with the one before it (what was read is what was there, without a gap), and the ledger
with the rows that the table's files really hold.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from jobs.core.table import Layer, Speaks, Table
from jobs.run.files import added
from jobs.run.healed import healed
from jobs.run.lake import Lake
from jobs.run.lease import is_written
from jobs.run.ledger import Entry, entries, is_table
from jobs.run.resolutions import REPLAY, released, unfinished, unfollowed
from jobs.run.tail import right_until
from jobs.run.totals import Totals

Entries = Sequence[tuple[int, Entry]]

PATIENCE, AGAIN = 10.0, 0.2
"""Seconds to wait for a batch that is between its commits, and from look to look."""


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
    """Good rows that a backfill or a replay brought in; they were held back or dropped before."""
    rows: int = 0
    waiting: int = 0
    batches: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Tell whether nothing is missing and nothing is there twice."""
        return not self.faults


def balance(table: Table, lake: Lake) -> Balance:
    """Draw up a table's balance sheet; what does not agree is named with its batch.

    A writer commits to the quarantine first and to the table later, and may do so while the books are read. So what
    does not agree counts only if it still does not when nobody writes, or after a while.
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
    if table.layer is Layer.BRONZE:
        sheet.faults += _offset_faults(found)
    else:
        sheet.faults += _source_faults(table, lake, found, sheet)
    sheet.faults += _row_faults(table, lake, found, sheet)
    sheet.faults += _drop_faults(found, sheet)
    return sheet


def waiting(table: Table, lake: Lake) -> int:
    """Return how many rows of its sources a table has not read yet, from the ledgers alone."""
    found = in_force(list(entries(lake.table(table))))
    return _waiting(table, lake, found, _inputs(table, lake, found))


def rows_until(path: Path, version: int) -> int:
    """Return how many rows a table held at a version, as its ledger counts them."""
    found = [each for each in entries(path) if each[0] <= version]
    return sum(entry.written for _, entry in in_force(found))


def read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the version of a source up to which a table has read it."""
    told = [entry.versions for _, entry in entries(lake.table(table))]
    return max((versions[source.id][1] for versions in told if source.id in versions), default=0)


def live_rows(path: Path, version: int | None = None) -> int:
    """Return the rows in a table's files, as their statistics count them, at a version or now."""
    if not is_table(path):
        return 0
    # The actions come as an Arrow batch; which library's is delta-rs' own affair.
    actions: Any = DeltaTable(path, version=version).get_add_actions(flatten=True)
    return sum(int(count.as_py()) for count in actions["num_records"])


def held_rows(table: Table, lake: Lake) -> int:
    """Return how many records a quarantine holds: those that were put there, less those that were released."""
    return live_rows(lake.quarantine(table)) - released(table, lake)


def in_force(found: Entries) -> Entries:
    """Return the entries that speak of the table as it stands; a later batch may have replaced all before it."""
    last = max((n for n, (_, entry) in enumerate(found) if entry.replaced), default=0)
    return found[last:]


def _entry_faults(version: int, entry: Entry) -> Iterator[str]:
    where = f"batch {entry.batch} (version {version})"
    if entry.read != entry.accounted:
        yield f"{where} read {entry.read} rows and accounts for {entry.accounted}"
    if entry.duplicates < 0 and not entry.is_backfill:
        yield f"{where} wrote {-entry.duplicates} rows more than it read"


def _drop_faults(found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that no row is below the watermark and nowhere else; the law of disorder rules it out."""
    if sheet.dropped_by_watermark:
        version, first = next(each for each in found if each[1].dropped_by_watermark)
        yield (
            f"dropped {sheet.dropped_by_watermark} rows below the watermark, first in batch {first.batch} "
            f"(version {version}); a backfill of their time brings them in"
        )


def _offset_faults(found: Entries) -> Iterator[str]:
    """Check that each batch begins where the one before it ended, and holds all that lies between."""
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
    """Check that each batch leaves nothing unread of the versions up to its last; none is cut in two."""
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
    if table.speaks is Speaks.AFRESH:
        return _unseen(table, lake, found)
    return _unread(found, sources) + _not_looked_up(table, lake)


def _unread(found: Entries, sources: Mapping[str, Totals]) -> int:
    """Return how many rows were appended to its sources since a stream read them last."""
    there = sum(rows.total for rows in sources.values())
    return there - sum(entry.read for _, entry in found)


def _unseen(table: Table, lake: Lake, found: Entries) -> int:
    """Return how many rows of its sources came or went since a table looked at them last."""
    seen = found[-1][1].versions if found else {}
    return sum(
        _came_or_went(lake.table(source), seen.get(source.id, (0, -1))[1])
        for source in table.upstream
    )


def _not_looked_up(table: Table, lake: Lake) -> int:
    """Return how many rows of its static side came or went since a table looked at it last."""
    if table.looks_up is None or not lake.exists(table):
        return 0
    return _came_or_went(lake.table(table.looks_up.source), right_until(lake.table(table)))


def _came_or_went(path: Path, before: int) -> int:
    """Return how many rows of a table came or went after a version."""
    return sum(
        entry.came + entry.gone if entry.is_backfill else entry.written
        for version, entry in entries(path)
        if version > before
    )


def _inputs(table: Table, lake: Lake, found: Entries) -> dict[str, Totals]:
    """Return how many rows each source had for this table, by the way in which the table reads it."""
    paths = {source.id: lake.table(source) for source in table.upstream}
    first = next((entry for _, entry in found if not entry.is_backfill), None)
    if table.speaks is Speaks.AFRESH or (first and first.replaced and not first.promoted):
        return {name: Totals.all(path) for name, path in paths.items()}
    if first and first.whole:
        begun = {name: versions[0] for name, versions in first.versions.items()}
        return {
            name: Totals.standing(path, begun[name]) if name in begun else Totals.appended(path)
            for name, path in paths.items()
        }
    return {name: Totals.appended(path) for name, path in paths.items()}


def _lasts(entry: Entry) -> str:
    return ", ".join(str(last) for _, last in entry.versions.values())


def _row_faults(table: Table, lake: Lake, found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that the files hold what the ledger says was written."""
    for path in lake.books(table):
        yield from _missing_files(path, is_own=path == lake.table(table))
    changes = not (table.judges or table.layer is Layer.BRONZE) and _rewrites(found, table)
    written = sum(entry.written for _, entry in found)
    if not changes and sheet.rows != written:
        yield f"the table holds {sheet.rows} rows, but {written} were written"
    if table.judges:
        yield from _quarantine_faults(table, lake, found, sheet)


def _quarantine_faults(table: Table, lake: Lake, found: Entries, sheet: Balance) -> Iterator[str]:
    """Check that the quarantine holds what was sent there and not released, and that no verb was left half done."""
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
            f"the replay from {unled.since} to {unled.until} was interrupted before what rests on it was computed "
            f"again; repeat it: `strandline quarantine replay {table.id}`"
        )


def _missing_files(path: Path, *, is_own: bool) -> Iterator[str]:
    """Name the batches whose files are no longer there; a version is named as such only if it is the table's own."""
    if not live_rows(path):
        return
    present = {Path(name).name for name in DeltaTable(path).file_uris()}
    for version, entry in entries(path):
        for file in map(Path, added(path, version).files):
            if file.name in present and not file.exists():
                at = f"version {version}" if is_own else f"number {version} of its log"
                yield (
                    f"batch {entry.batch} ({at}): its file {file.name} "
                    f"is gone from {path.parent.name}.{path.name}"
                )


def _rewrites(found: Entries, table: Table) -> bool:
    return table.rewrites or any(entry.replaced for _, entry in found)
