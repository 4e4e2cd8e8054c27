"""The proof that every event is accounted for, hop by hop, from the logs alone; no Spark, no broker.

Three things must agree: each entry with itself (read + made by the function = good + duplicates + quarantined + dropped
by the watermark + lost by the function, of which the last and the first are faults by themselves), each table with its sources (the rows read are the rows that they had, without a gap), and the ledger
with the rows in the table's files.
The first two are sums that are carried forward (jobs/strandline/engine/accounting/table_books.py), so a sheet costs what was committed
since they were last written down, and not what was ever committed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

from strandline.core.errors import DataError
from strandline.core.table import Ingested, Judged, Recomputed, Table, Upserted
from strandline.engine.accounting.audit_books import audit
from strandline.engine.accounting.table_books import Books
from strandline.engine.quarantine.resolutions import REPLAY, released, unfinished, unfollowed
from strandline.engine.storage.damage import damage
from strandline.engine.storage.import_marks import IMPORT
from strandline.engine.storage.import_notes import range_to_follow
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import (
    Entry,
    between,
    is_passed_over,
    last_entry,
    latest_version,
)
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.ledger_sums import EPOCH, MICROSECOND
from strandline.engine.storage.locks import is_written
from strandline.engine.storage.open_table import live_rows, missing_files
from strandline.engine.storage.place import Place

Entries = Sequence[tuple[int, Entry]]

PATIENCE, AGAIN = 10.0, 0.2
"""Seconds to wait for a batch that is between its commits, and between two checks."""


@dataclass(slots=True, kw_only=True)
class Balance:
    """The balance sheet of one table."""

    table: str
    read: int = 0
    good: int = 0
    passed_over: int = 0
    """Of these, the rows that a derived table left out on purpose, as far as that is known."""
    counted: int = 0
    """Of these, the rows that its windows count, where it names the column that counts them."""
    duplicates: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    dropped_by_watermark: int = 0
    lost_by_function: int = 0
    """Records for which the table's function gave no row."""
    made_by_function: int = 0
    """Rows that it gave beyond one for each record."""
    healed: int = 0
    """Good rows that a backfill or a replay added; they were held back, dropped or lost before."""
    imported: int = 0
    """Of the rows read, those that came from files and not from Kafka."""
    expired: int = 0
    """Rows that retention deleted, of the table and of its quarantine; what was read and where it went stays counted."""
    forgotten: int = 0
    """Rows that requests to forget deleted, likewise."""
    rows: int = 0
    waiting: int = 0
    batches: int = 0
    lost: dict[str, list[list[int]]] = field(default_factory=dict)
    """Offsets that expired in Kafka before they were read, and whose loss was accepted; by partition."""
    faults: list[str] = field(default_factory=list)
    damage: DataError | None = None
    """Why no figure of it is known, where a file of it cannot be read."""

    def figures(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        found = asdict(replace(self, damage=None))
        found.pop("damage")
        return found

    @property
    def balanced(self) -> bool:
        """Return whether no row is missing and none is counted twice."""
        return not self.faults


def balance(table: Table, lake: Lake, *, audited: bool = False) -> Balance:
    """Return a table's balance sheet; each fault is named with its batch.

    What cannot be read of the table, or of one that it reads, is a fault as well: the sheets of the others are drawn.

    Args:
        table: The table.
        lake: Its lake.
        audited: Whether to read every entry again, and to compare with the books that were closed.
    """
    try:
        return _settled(table, lake, audited=audited)
    except Exception as error:
        found = damage(error, table)
        if found is None:
            raise
        return Balance(table=table.id, faults=[found.message], damage=found)


def _settled(table: Table, lake: Lake, *, audited: bool) -> Balance:
    # A writer commits to the quarantine first and to the table later, and may do so while the books are read. So a fault
    # counts only if it remains without a writer, or after a while.
    sheet, deadline = _drawn(table, lake, audited=audited), time.monotonic() + PATIENCE
    while not sheet.balanced and time.monotonic() < deadline:
        has_writer = is_written(table, lake)
        sheet = _drawn(table, lake, audited=audited)
        if not has_writer:
            break
        time.sleep(AGAIN)
    return sheet


def _drawn(table: Table, lake: Lake, *, audited: bool) -> Balance:
    books = audit(table, lake) if audited else Books(table, lake).follow()
    sums, healed = books.sums, books.sums.dropped_and_healed
    found_again = sums.lost_and_healed
    held = [sums_of(lake.quarantine(table))] if isinstance(table, Judged) else []
    removals = [sums, *held]
    sheet = Balance(
        table=table.id,
        read=sums.read,
        good=sums.good + sums.brought_back,
        passed_over=sums.passed_over,
        counted=sums.counted,
        duplicates=sums.duplicates + healed + found_again,
        quarantined=dict(sums.held),
        dropped_by_watermark=sums.dropped - healed - sums.brought_back,
        lost_by_function=sums.lost_by_function - found_again,
        made_by_function=sums.made_by_function,
        healed=sums.healed + sums.brought_back,
        imported=sum(sums.imported.values()),
        expired=sum(each.expired for each in removals),
        forgotten=sum(each.forgotten for each in removals),
        rows=live_rows(lake.table(table)),
        waiting=_waiting(books, lake),
        batches=sums.batches,
        lost=dict(sums.lost),
        faults=[*books.faults],
    )
    sheet.faults += _row_faults(books, lake, sheet)
    sheet.faults += _drop_faults(books, sheet)
    sheet.faults += _function_faults(books, sheet)
    return sheet


def waiting(table: Table, lake: Lake) -> int:
    """Return the number of rows of its sources that a table has not read yet, from the ledgers alone."""
    return _waiting(Books(table, lake).follow(), lake)


def waiting_for_import(table: Table, lake: Lake) -> int:
    """Return how many of the waiting rows came from files, which no stream reads: an import brings them.

    A stream that has read nothing yet begins with them.
    """
    if not has_begun(table, lake):
        return 0
    books = Books(table, lake).follow()
    return sum(books.pending(sums_of(lake.table(source))) for source in table.upstream)


def has_begun(table: Table, lake: Lake) -> bool:
    """Return whether a table's own writer has written down that it read a row."""
    return any(last_entry(path) is not None for path in lake.folders(table))


def rows_until(path: Place, version: int) -> int:
    """Return the number of rows in a table at a version, from its ledger."""
    return sums_of(path, version).written


def read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the version of a source up to which a table has read it."""
    return sums_of(lake.table(table)).seen.get(source.id, 0)


def readable_at(table: Table, source: Table, lake: Lake) -> int:
    """Return the version at which a source holds what a table has read of it and is not deleted.

    Commits that streams pass over hold nothing new. Without those after the version that was read, rows would be searched
    in files that retention deleted.
    """
    path, version = lake.table(source), read_until(table, source, lake)
    while is_passed_over(path, version + 1):
        version += 1
    return version


def held_rows(table: Table, lake: Lake) -> int:
    """Return the number of records that a quarantine holds: all of them, less those that were released."""
    removed = sums_of(lake.quarantine(table)).released
    return live_rows(lake.quarantine(table)) - released(table, lake) + removed


def in_force(found: Entries) -> Entries:
    """Return the entries since the last batch that replaced the whole table."""
    last = max((n for n, (_, entry) in enumerate(found) if entry.replaced), default=0)
    return found[last:]


def _drop_faults(books: Books, sheet: Balance) -> Iterator[str]:
    """Check that no row was dropped below the watermark; the law of disorder rules it out."""
    if sheet.dropped_by_watermark:
        version, batch = books.sheet.dropped_at or (-1, -1)
        yield (
            f"dropped {sheet.dropped_by_watermark} rows below the watermark, first in batch {batch} "
            f"(version {version}); {_way_back(books, sheet.dropped_by_watermark)}"
        )


def _way_back(books: Books, dropped: int) -> str:
    """Return how rows that were dropped come in, and how no more are."""
    table, drops = books.table, books.sums.drops
    if isinstance(table, Ingested | Judged):
        return "a backfill of their range adds them"
    names = " and ".join(source.id for source in table.upstream)
    late = (
        f"rows of {names} came later than its `lateness` says, on which the watermark of {table.id} rests: declare it as "
        "long as they come late, and"
    )
    if sum(rows for rows, _ in drops) < dropped:
        return (
            f"{late} compute the table again, because their range is not known: `strandline rebuild {table.id}`, then "
            f"`strandline promote {table.id}`"
        )
    ends = [each for _, ranges in drops for each in ranges]
    since = EPOCH + min(first for first, _ in ends) * MICROSECOND
    until = EPOCH + (max(last for _, last in ends) + 1) * MICROSECOND
    whole = until.replace(microsecond=0) + timedelta(seconds=bool(until.microsecond))
    return (
        f"{late} `strandline backfill {table.id} --since {since.replace(microsecond=0).isoformat()} "
        f"--until {whole.isoformat()}` adds those that were dropped"
    )


def _function_faults(books: Books, sheet: Balance) -> Iterator[str]:
    """Check that the table's function gave one row for each record."""
    version, batch = books.sheet.lost_at or (-1, -1)
    where = f"first in batch {batch} (version {version})"
    if sheet.lost_by_function:
        yield (
            f"the table's function gave no row for {sheet.lost_by_function} records, {where}; give each a row, with "
            "`_problem` set where it is none, and compute the table again (`strandline rebuild`)"
        )
    if sheet.counted > sheet.good:
        more = sheet.counted - sheet.good
        yield (
            f"its windows count {sheet.counted} rows, {more} more than it has read; a row is counted in one window only, "
            "or `source_count` is not declared"
        )
    if sheet.made_by_function:
        yield (
            f"the table's function gave more rows than records, {sheet.made_by_function} of them, {where}; a table above "
            "may make several rows out of one, this one must not"
        )


def _waiting(books: Books, lake: Lake) -> int:
    table = books.table
    if isinstance(table, Ingested):
        return 0
    if isinstance(table, Recomputed):
        return _unseen(books, lake)
    sources = {source.id: sums_of(lake.table(source)) for source in table.upstream}
    return books.unread(sources) + _not_looked_up(books, lake)


def _unseen(books: Books, lake: Lake) -> int:
    """Return the number of rows added to or removed from its sources since a table last read them."""
    seen = books.sheet.versions
    return sum(
        _came_or_went(lake.table(source), seen.get(source.id, (0, -1))[1])
        for source in books.table.upstream
    )


def _not_looked_up(books: Books, lake: Lake) -> int:
    """Return the number of rows added to or removed from its dimension since a table last joined with it."""
    table = books.table
    if table.dimension is None or not lake.exists(table):
        return 0
    return _came_or_went(lake.table(table.dimension.source), books.sums.right_until)


def _came_or_went(path: Place, before: int) -> int:
    """Return the number of rows added to or removed from a table after a version."""
    if before < 0:
        return sums_of(path).moved
    later = between(path, before + 1, latest_version(path))
    return sum(entry.came + entry.gone if entry.is_backfill else entry.written for entry in later)


def _row_faults(books: Books, lake: Lake, sheet: Balance) -> Iterator[str]:
    """Check that the files hold the rows that the ledger counts as written."""
    table, sums = books.table, books.sums
    for path in lake.books(table):
        yield from _missing_files(path, is_own=path == lake.table(table))
    replaces = isinstance(table, Upserted | Recomputed) or sums.replaced_at >= 0
    changes = not isinstance(table, Ingested | Judged) and replaces
    if not changes and sheet.rows != sums.written:
        yield f"the table holds {sheet.rows} rows, but {sums.written} were written"
    if isinstance(table, Judged):
        yield from _quarantine_faults(table, lake, sheet)


def _quarantine_faults(table: Table, lake: Lake, sheet: Balance) -> Iterator[str]:
    """Check that the quarantine holds the rows sent there and not released, and that no replay or backfill is half done."""
    held = sum(sheet.quarantined.values())
    gone = sums_of(lake.quarantine(table))
    kept = held_rows(table, lake) + gone.removed - gone.released
    half, unled = unfinished(table, lake), unfollowed(table, lake)
    if half is not None:
        again = f": `strandline quarantine replay {table.id}`" if half.mode == REPLAY else ""
        what = half.mode if half.mode in {REPLAY, IMPORT} else "backfill"
        yield f"the {what} from {half.since} to {half.until} was interrupted; repeat it{again}"
    elif held != kept:
        yield f"the quarantine holds {kept} rows, but {held} were sent there"
    if (reach := range_to_follow(table, lake)) is not None:
        yield (
            f"the import from {reach[0]} to {reach[1]} was interrupted before the tables above were computed again; "
            "repeat it"
        )
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
            f"batch {entry.batch} ({at}): its file {name} is gone from {path.parent.name}.{path.name}, or was cut"
        )
