"""The proof that every event is accounted for, hop by hop, from the logs alone; no Spark, no broker.

Three things must agree: each entry with itself (read + made by the function = good + duplicates + quarantined records + skipped +
dropped by the watermark + lost by the function, of which the last and the first are faults by themselves), each table with its sources (the rows read are the rows that they had, without a gap), and the ledger
with the rows in the table's files.
The first two are sums that are carried forward (jobs/strandline/engine/accounting/table_books.py), so a sheet costs what was committed
since they were last written down, and not what was ever committed.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from strandline import catalog

from strandline.core.errors import DataError
from strandline.core.table import Feed, Ingested, Judged, Recomputed, Table, Upserted
from strandline.engine.accounting.held_records import REPLAY, released, unfinished, unfollowed
from strandline.engine.accounting.routes import OTHERS, routes_of, seen_in, sentence, sentences
from strandline.engine.accounting.table_books import (
    SLICE,
    Books,
    FeedBooks,
    PlainBooks,
    books_of,
    chained,
    entry_columns,
    subject_of,
    texts,
)
from strandline.engine.kafka.slices import part_of
from strandline.engine.lake.commit.delta_commit import ClaimedRows
from strandline.engine.lake.duckdb_table import Peek, peek
from strandline.engine.lake.import_notes import range_to_follow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_written
from strandline.engine.lake.log.ledger import (
    IMPORT,
    Entry,
    Offsets,
    between,
    entry_at,
    is_table,
    last_entry,
    latest_version,
    look_again,
)
from strandline.engine.lake.log.ledger_sums import (
    EPOCH,
    MICROSECOND,
    ByKind,
    name_of,
    snapshot,
    sums_of,
)
from strandline.engine.lake.log.log_actions import changes_rows, table_id
from strandline.engine.lake.open_table import live_rows, missing_files
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.spark_checkpoint import Close, close_ordered, rows_passed

# Prove closed books from the first commit: add up the whole log again, and compare.
#
# What every other reader takes from a snapshot is not believed here: each entry is read again and checked against its
# sources, and must give the sums, the chain of hashes and the copies that were written when the books were closed.
# It takes as long as the history is.


COPIES = """
    SELECT version, entry FROM entries
    WHERE "table" = getvariable('table_') AND log = getvariable('log_')
    AND version BETWEEN getvariable('first_') AND getvariable('last_') ORDER BY version
"""


MADE = ("codes", "first_read", "made_from", "undone", "appended_before", "redone")
"""What books that older code has closed have not added up."""


def audit(table: Table, lake: Lake) -> Books:
    """Return the books of a table from its first commit; how they differ from those that were closed is a fault."""
    own = Books(table, lake, from_start=True)
    faults = [*compared(own, lake)]
    for books in books_of(table, lake, from_start=True):
        if books.path != own.path:
            faults += [f"{name_of(books.path)}: {fault}" for fault in compared(books, lake)]
    own.follow().faults += faults
    return own


def compared(books: PlainBooks, lake: Lake) -> Iterator[str]:
    """Read books from the first commit to where they were closed, and yield how they differ from what was written."""
    path, taken = books.path, snapshot(books.path)
    until = taken.sums.version
    if until < 0:
        return
    books.follow(until)
    now, then = asdict(books.sums), asdict(taken.sums)
    if taken.sums.made_from:  # older code has closed the first of them, which did not add these up
        now |= {name: then[name] for name in MADE}
    for name in (name for name in now if now[name] != then[name]):
        yield f"`{name}` up to version {until} is {now[name]}, but {then[name]} was closed"
    sheet = json.loads(json.dumps(books.encoded()))
    for name in (name for name in sheet if sheet[name] != taken.sheet.get(name)):
        yield (
            f"`{name}` up to version {until} is {sheet[name]}, but {taken.sheet.get(name)} was closed"
        )
    if chained(path, "", 0, until) != taken.chain:
        yield f"an entry up to version {until} was changed after the books were closed"
    yield from _copy_faults(path, lake)


def _copy_faults(path: Place, lake: Lake) -> Iterator[str]:
    """Check that the table of closed entries has each entry of the log once."""
    if not is_table(lake.closed_entries):
        return
    until = ClaimedRows(lake.closed_entries, entry_columns).claimed(subject_of(path))
    copies = peek(lake.closed_entries, "entries")
    for first in range(0, until + 1, SLICE):
        last = min(until, first + SLICE - 1)
        if _copied(copies, path, first, last) != [*texts(path, first, last)]:
            yield f"the copied entries of versions {first} to {last} are not those of its log"


def _copied(copies: Peek, path: Place, first: int, last: int) -> list[tuple[object, ...]]:
    return copies.ask(COPIES, table_=name_of(path), log_=table_id(path), first_=first, last_=last)


Entries = Sequence[tuple[int, Entry]]

UNSOUGHT = "not looked for"
"""What is said of copies where events have no id: 0 would read as if there were none."""

PATIENCE, AGAIN = 10.0, 0.2
"""Seconds to wait for a batch that is between its commits, and between two checks."""


@dataclass(slots=True, kw_only=True)
class Balance:
    """The balance sheet of one table."""

    table: str
    read: int = 0
    others: int = 0
    """Rows of its source that it left to other tables, because they are of kinds that it does not take."""
    skipped: dict[str, int] = field(default_factory=dict)
    """The rows that a silver table passes over on purpose, by the name of the rule."""
    good: int = 0
    """Rows accepted; of a table that makes rows of a list the records."""
    listed: str = ""
    """The list of whose items a table makes rows."""
    passed_over: int = 0
    """Of the rows accepted, those that a derived table left out on purpose, as far as that is known."""
    items: int = 0
    """Of a derived table that makes rows of a list, the items of the rows accepted."""
    items_passed_over: int = 0
    """Of these, those that it left out on purpose, as far as that is known."""
    counted: int = 0
    """Of the rows accepted, those that its windows count, where it names the column that counts them."""
    duplicates: int = 0
    keeps_copies: bool = False
    """Whether none is looked for, because events are known by their places alone."""
    quarantined: dict[str, int] = field(default_factory=dict)
    held_items: int = 0
    """Of those held, the items of records that are believed, where the table holds a bad item by itself."""
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
    kinds: dict[str, int] = field(default_factory=dict)
    """Of bronze whose topics have kinds, the records of each kind that a table takes."""
    unrouted: dict[str, int] = field(default_factory=dict)
    """The records that no table has, by kind, the commonest first."""
    unrouted_more: int = 0
    """Those of further kinds."""
    kindless: int = 0
    """Those without a kind."""
    homeless: int = 0
    """All of these: records that no table has, of which no declaration says that this is meant."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Those that no table takes on purpose, by kind."""
    said: list[str] = field(default_factory=list)
    """What a person should know of them, or of what its records have beside the declaration, in sentences."""
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
    def copies(self) -> int | str:
        """Return the number of copies, or in words that none is looked for."""
        return copies_said(self.duplicates, keeps_copies=self.keeps_copies)

    @property
    def held_records(self) -> int:
        """Return how many records are held, without the items of records that are believed."""
        return sum(self.quarantined.values()) - self.held_items

    @property
    def balanced(self) -> bool:
        """Return whether no row is missing and none is counted twice."""
        return not self.faults


def copies_said(duplicates: int, *, keeps_copies: bool) -> int | str:
    """Return a number of copies, or in words that none is looked for; those that were found under a former key are a number."""
    return UNSOUGHT if keeps_copies and not duplicates else duplicates


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
        look_again()
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
        others=sums.others,
        skipped=dict(sums.skipped),
        listed=table.listed,
        good=sums.good + sums.brought_back,
        passed_over=sums.passed_over,
        items=sums.items if table.listed and not isinstance(table, Judged) else 0,
        items_passed_over=sums.items_passed_over,
        counted=sums.counted,
        duplicates=sums.duplicates + healed + found_again,
        keeps_copies=table.keeps_copies,
        quarantined=dict(sums.held),
        held_items=sums.held_items,
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
    if isinstance(table, Ingested):
        _add_routes(sheet, table, lake, sums.by_kind)
    if isinstance(table, Judged) and (said := sentence(table, seen_in(sums.drift, table))):
        sheet.said.append(said)
    closed = close_ordered(lake.checkpoint(table))
    if closed and not _is_passed(closed, table, lake):
        until = EPOCH + timedelta(milliseconds=closed.until_ms)
        sheet.said.append(
            f"{table.id}: all time until {until.isoformat()} is over by order of {closed.by}"
        )
    sheet.faults += _row_faults(books, lake, sheet)
    sheet.faults += _drop_faults(books, sheet)
    sheet.faults += _function_faults(books, sheet)
    return sheet


def _add_routes(sheet: Balance, table: Ingested, lake: Lake, counted: ByKind) -> None:
    found = routes_of(table, lake, counted)
    sheet.kinds = {each.kind or OTHERS: each.records for each in found.routes}
    sheet.unrouted, sheet.unrouted_more = dict(found.unrouted), found.more
    sheet.kindless, sheet.left_out = found.kindless, dict(found.left)
    sheet.homeless = found.homeless
    sheet.said += sentences(table, found)
    sheet.faults += found.faults


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

    Commits that streams pass over hold nothing new, and those by which files are written again: for another name of a column, or put
    together. Without those after the version that was read, rows would be searched in files that retention deleted, or under a
    name that the table's function does not know any more.
    """
    path, version = lake.table(source), read_until(table, source, lake)
    newest = latest_version(path)
    while version < newest and _holds_nothing_new(path, version + 1):
        version += 1
    return version


def _holds_nothing_new(path: Place, version: int) -> bool:
    entry = entry_at(path, version)
    return not changes_rows(path, version) if entry is None else entry.is_passed_over


def held_rows(table: Table, lake: Lake) -> int:
    """Return the number of records that a quarantine holds: all of them, less those that were released."""
    removed = sums_of(lake.quarantine(table)).released
    return live_rows(lake.quarantine(table)) - released(table, lake) + removed


def in_force(found: Entries) -> Entries:
    """Return the entries since the last batch that replaced the whole table."""
    last = max((n for n, (_, entry) in enumerate(found) if entry.replaced), default=0)
    return found[last:]


def _is_passed(closed: Close, table: Table, lake: Lake) -> bool:
    """Return whether rows have moved the watermark beyond a close that was ordered, so that it says nothing any more."""
    if closed.batch >= 0:
        return rows_passed(lake.checkpoint(table), closed)
    newest = last_entry(lake.table(table))
    by_rows = newest[1].watermark if newest else None
    until = EPOCH + timedelta(milliseconds=closed.until_ms)
    return by_rows is not None and datetime.fromisoformat(by_rows) > until


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
    ends = [each for _, ranges in drops for each in ranges]
    closed = close_ordered(books.checkpoint)
    is_by_close = closed and (
        any(first < closed.until_ms * 1000 for first, _ in ends)
        or (not ends and not rows_passed(books.checkpoint, closed))
    )
    if closed and is_by_close:
        late = f"they came after it was closed ({closed.by}):"
    if sum(rows for rows, _ in drops) < dropped:
        return (
            f"{late} compute the table again, because their range is not known: `strandline rebuild {table.id}`, then "
            f"`strandline promote {table.id}`"
        )
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
            "`_problem` set where it is none, declare in `skips` what the table passes over, and compute it again "
            "(`strandline rebuild`)"
        )
    if sheet.counted > sheet.good:
        more = sheet.counted - sheet.good
        yield (
            f"its windows count {sheet.counted} rows, {more} more than it has read; a row is counted in one window only, "
            "or `source_count` is not declared"
        )
    if sheet.made_by_function:
        yield (
            f"the table's function gave more rows than records, {sheet.made_by_function} of them, {where}; give "
            'each one row with its list, and declare the list: rows="items" makes a row of each item'
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


# The books of feeds: no offset read twice or left out, and no record written that the lake does not get.
#
# A feed's entries follow each other without a gap, in the topics that it reads and in the topic that it writes
# (jobs/strandline/engine/flow/feed_ledger.py). What it wrote is counted a second time by the bronze table over its topic, which
# has each record once; so where that table has read as far as the feeds have counted, they cannot have written more
# records than it has. What the bronze tables over the topics that it reads have beyond its last entry waits: it is not
# read yet, or of the epoch that runs. Whether the rules should have raised other alerts is for a backtest to say, not for the books.


LIVE = Feed.layer


def feed_balances(lake: Lake, *, audited: bool = False) -> list[Balance]:
    """Return the balance sheet of each feed that ever ran; ``rows`` are the records that it wrote."""
    folder = lake.root / LIVE
    found = {
        f"{LIVE}.{name}": FeedBooks(folder / name, from_start=audited)
        for name in folder.names()
        if is_table(folder / name)
    }
    faults = {name: [*compared(books, lake)] if audited else [] for name, books in found.items()}
    for books in found.values():
        books.follow()
    excess = _excess(list(found.values()), lake)
    return [_sheet(n, books, lake, [*faults[n], *excess]) for n, books in found.items()]


def _sheet(name: str, books: FeedBooks, lake: Lake, faults: Sequence[str]) -> Balance:
    return Balance(
        table=name,
        read=books.sums.read,
        good=books.sums.good,
        quarantined=dict(books.sums.held),
        dropped_by_watermark=books.sums.dropped,
        rows=books.sums.written,
        waiting=_unread_by_bronze(books, lake),
        batches=books.sums.batches,
        lost=dict(books.sums.lost),
        faults=[*books.faults, *faults],
    )


def _unread_by_bronze(books: FeedBooks, lake: Lake) -> int:
    """Return how many offsets the bronze tables have read beyond a feed's last entry."""
    topics = _topics(books.read)
    newest = [
        last_entry(lake.table(table))
        for table in _ingested(lake)
        if {topic.name for topic in table.topics} & topics
    ]
    ends = {part: end for found in newest if found for part, (_, end) in found[1].offsets.items()}
    return sum(max(0, end - books.read.get(part, 0)) for part, end in ends.items())


def _ingested(lake: Lake) -> list[Ingested]:
    """Return the bronze tables that exist."""
    return [
        table for table in catalog.tables() if isinstance(table, Ingested) and lake.exists(table)
    ]


def _excess(feeds: Sequence[FeedBooks], lake: Lake) -> list[str]:
    """Return a fault for each topic to which feeds wrote more than its table has, though it has read as far."""
    return [fault for table in _ingested(lake) for fault in _excess_of(table, feeds, lake)]


def _excess_of(table: Ingested, all_feeds: Sequence[FeedBooks], lake: Lake) -> Iterator[str]:
    topics = {topic.name for topic in table.topics}
    feeds = [books for books in all_feeds if topics & _topics(books.counted)]
    if not feeds:
        return
    newest = last_entry(lake.table(table))
    if newest is None or any(_is_beyond(books.counted, newest[1].offsets) for books in feeds):
        return
    written = sum(books.sums.written for books in feeds)
    there = sums_of(lake.table(table)).read
    if written > there:
        yield f"feeds wrote {written:,} records for {table.id}, which has {there:,}"


def _topics(parts: Iterable[str]) -> set[str]:
    return {part_of(name)[0] for name in parts}


def _is_beyond(counted: Mapping[str, int], read: Offsets) -> bool:
    return any(end > read.get(part, (0, 0))[1] for part, end in counted.items())
