"""The books of a table: the sums of its ledger, checked entry by entry against itself and against its sources.

Three rules are checked: an entry adds up; a batch begins at the offset where the one before ended, and holds the records
of its range; the rows read so far are those that the sources had up to the last version read.

For the third a reader needs the sums of each source *at the version that was read*, and for the next batch only what was
committed since. So the books carry those sums forward as well, and a balance costs what is new, however long the history.
Where a source is no longer what it was (restored from a copy, created again), all is added up again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import Any, Self

import pyarrow as pa

from strandline.core.table import Feed, Ingested, Judged, Recomputed, Table
from strandline.engine.lake.commit.delta_commit import ClaimedRows, compact
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import (
    Entry,
    Offsets,
    between,
    entry_text,
    is_table,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import (
    ByKind,
    Snapshot,
    Sums,
    fingerprint,
    follow,
    hashed,
    name_of,
    place_of,
    snapshot,
    write,
)
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place

# Books: the sums of a ledger, followed from its last snapshot on. These check nothing, as those of a quarantine.


NO_KINDS = asdict(ByKind())

MOST = 100
"""How many faults are kept; the first ones lead to the cause."""


class PlainBooks:
    """The sums of a ledger; a subclass checks its entries and carries forward what it needs for that."""

    def __init__(self, path: Place, *, from_start: bool = False) -> None:
        """Begin at the last snapshot, or before the first commit; nothing is read yet."""
        self.path = path
        self.faults: list[str] = []
        self.sums = Sums()
        taken = None if from_start else snapshot(path)
        if taken is not None and self._restore(taken.sheet):
            self.sums = taken.sums
        else:
            self._restore({})

    def follow(self, until: int | None = None) -> Self:
        """Read the entries since the last call, to the latest or to a version; return itself."""
        follow(self.path, self.sums, until, self._add)
        return self

    def find(self, faults: Iterable[str]) -> None:
        """Note faults, which are carried forward as well."""
        self.faults += [*faults][: MOST - len(self.faults)]

    def encoded(self) -> dict[str, Any]:
        """Return what is carried forward beside the sums, as JSON."""
        return {"faults": self.faults}

    def _restore(self, sheet: Mapping[str, Any]) -> bool:
        """Take what was carried forward, and return whether it still holds."""
        self.faults = [*sheet.get("faults", ())]
        return True

    def _add(self, version: int, entry: Entry) -> None:
        """Check an entry, once it is in the sums."""


class Counting(StrEnum):
    """How a table counts the rows of its sources."""

    WHOLE = "whole"
    """As a reader of all rows does."""
    APPENDED = "appended"
    """As a stream does, which skips the changes of backfills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The rows of a source up to a version.

    Args:
        version: The version.
        written: Rows in force for a reader of the whole, those that were deleted for good included: a reader has read them.
        appended: Rows that a stream has received.
        removed: Rows in force that retention or a request to forget deleted.
        more: How many rows more than these a table found that began with a snapshot of the source; negative where rows had
            been deleted before.
        by_kind: The records of each kind, of bronze whose topics have several.
    """

    version: int = -1
    written: int = 0
    appended: int = 0
    removed: int = 0
    more: int = 0
    by_kind: ByKind = field(default_factory=ByKind)

    def total(self, counting: Counting) -> int:
        """Return the number of rows as a table counts them."""
        return self.more + (self.written if counting is Counting.WHOLE else self.appended)

    def at(self, path: Place, version: int) -> "Source":
        """Return the same at another version; from the first one where it is an earlier one, which only an undo reads."""
        start = self if version >= self.version else Source(more=self.more)
        written, appended, removed = start.written, start.appended, start.removed
        by_kind = start.by_kind.copied()
        for entry in between(path, start.version + 1, version):
            kept = 0 if entry.replaced else 1
            written = entry.written + entry.removed + kept * written
            removed = entry.removed + kept * removed
            by_kind.add(entry, appended)
            appended += entry.appended
        return Source(
            version=version,
            written=written,
            appended=appended,
            removed=removed,
            more=self.more,
            by_kind=by_kind,
        )


@dataclass(slots=True)
class Sheet:
    """What the books carry forward beside the sums.

    Args:
        counting: How the table counts its sources; None before its first entry.
        sources: The rows of each source up to the last version read.
        read: The sources that were read by the entries in force.
        versions: The versions that the last entry read.
        starts: For each partition of a topic the first offset read.
        ends: For each partition the offset after the last one read.
        skipped: How many offsets before and between the ranges were not read.
        dropped_at: Version and batch of the first entry with rows that the watermark refused.
        lost_at: Those of the first entry with records that the table's function lost or multiplied.
    """

    counting: Counting | None = None
    sources: dict[str, Source] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    dropped_at: tuple[int, int] | None = None
    lost_at: tuple[int, int] | None = None


class Books(PlainBooks):
    """Follows the ledger of a table."""

    def __init__(self, table: Table, lake: Lake, *, from_start: bool = False) -> None:
        """Begin at the last snapshot, or before the first commit; nothing is read yet."""
        self.table = table
        self._lake = lake
        self.checkpoint = lake.checkpoint(table)
        super().__init__(lake.table(table), from_start=from_start)

    def encoded(self) -> dict[str, Any]:
        """Return what is carried forward beside the sums, as JSON."""
        known = self.sheet.sources.items()
        fits = {name: fingerprint(self._source(name), each.version) for name, each in known}
        sheet = asdict(self.sheet)
        for each in sheet["sources"].values():
            if each["by_kind"] == NO_KINDS:  # as older code has closed them
                del each["by_kind"]
        return {**super().encoded(), **sheet, "fits": fits}

    def _restore(self, sheet: Mapping[str, Any]) -> bool:
        self.sheet = _decoded(sheet)
        fits = sheet.get("fits", {}).items()
        return super()._restore(sheet) and all(
            commit == fingerprint(self._source(name), self.sheet.sources[name].version)
            for name, commit in fits
        )

    def unread(self, sources: Mapping[str, Sums]) -> int:
        """Return the number of rows that sources have and the table has not read, from the sources' latest sums."""
        counting = self._counting()
        total = sum(
            _latest(sums, self.sheet.sources.get(n)).total(counting) for n, sums in sources.items()
        )
        if counting is Counting.APPENDED:  # no stream reads what was imported
            total += sum(self.pending(sums) for sums in sources.values()) + self.sums.brought
        return total - self.sums.read - self.sums.others

    def pending(self, source: Sums) -> int:
        """Return how many imported rows a source has and a table of its rows has not."""
        if not isinstance(self.table, Judged):
            return 0
        mine = self.sums.imported
        return sum(end - mine.get(part, 0) for part, end in source.imported.items())

    def _counting(self) -> Counting:
        default = Counting.WHOLE if isinstance(self.table, Recomputed) else Counting.APPENDED
        return self.sheet.counting or default

    def _add(self, version: int, entry: Entry) -> None:
        if entry.replaced:
            sources = {name: replace(each, more=0) for name, each in self.sheet.sources.items()}
            self.sheet = Sheet(sources=sources)
            self.faults = []
        if self.sheet.counting is None and not entry.is_backfill:
            self._begin(entry)
        if entry.dropped_by_watermark and self.sheet.dropped_at is None:
            self.sheet.dropped_at = (version, entry.batch)
        if (entry.lost_by_function or entry.made_by_function) and self.sheet.lost_at is None:
            self.sheet.lost_at = (version, entry.batch)
        faults = [*_entry_faults(version, entry), *self._item_faults(version, entry)]
        if isinstance(self.table, Ingested):
            faults += self._offset_faults(version, entry)
        else:
            faults += self._source_faults(version, entry)
        self.find(faults)
        if not entry.is_backfill:  # which reads no version
            self.sheet.versions = dict(entry.versions)

    def _begin(self, first: Entry) -> None:
        """Note how the table counts its sources, as its first entry says."""
        is_batch = first.replaced and not first.promoted
        is_whole = is_batch or isinstance(self.table, Recomputed)
        self.sheet.counting = Counting.WHOLE if is_whole else Counting.APPENDED
        for name, (begun, last) in first.versions.items():
            at = self._read_at(name, last if is_whole else begun)
            if is_whole:
                self.sheet.sources[name] = replace(at, more=-at.removed)
            elif first.whole:
                self.sheet.sources[name] = replace(at, more=at.written - at.removed - at.appended)

    def _read_at(self, name: str, version: int) -> Source:
        """Return a source at a version, from where its rows were added up last."""
        return replace(self.sheet.sources.get(name, Source()), more=0).at(
            self._source(name), version
        )

    def _item_faults(self, version: int, entry: Entry) -> Iterator[str]:
        """Check that each item of a list is a row, held, or left out by a function that only selects; repairs count records."""
        if entry.items is None or entry.is_backfill:
            return
        left = entry.items_passed_over
        if left is None and not isinstance(self.table, Judged):
            return  # its function has state, so what it left out is not known
        if (left or 0) < 0 or entry.items != entry.written + entry.held_items + (left or 0):
            held = f" and held {entry.held_items} of them" if entry.held_items else ""
            where = f"batch {entry.batch} (version {version})"
            yield f"{where} believes records with {entry.items} items and wrote {entry.written} rows{held}"

    def _offset_faults(self, version: int, entry: Entry) -> Iterator[str]:
        """Check that the batch begins where the one before it ended, and holds all records of its range."""
        where = f"batch {entry.batch} (version {version})"
        for partition, (start, end) in entry.offsets.items():
            expected = self.sheet.ends.get(partition, start)
            if start != expected:
                yield f"{where} begins partition {partition} at {start}, not at {expected}"
            self.sheet.skipped += start - self.sheet.ends.get(partition, 0)
            self.sheet.starts.setdefault(partition, start)
            self.sheet.ends[partition] = end
        span = sum(end - start for start, end in entry.offsets.values())
        held = entry.written + entry.removed
        if span != held + entry.without_record + entry.lost_offsets:
            yield f"{where} spans {span} offsets and holds {held} records"

    def _source_faults(self, version: int, entry: Entry) -> Iterator[str]:
        """Check that the table has read all rows of its sources up to the last version; no version is read in part."""
        if not entry.versions:
            return
        sheet = self.sheet
        for name, (_, last) in entry.versions.items():
            sheet.sources[name] = sheet.sources.get(name, Source()).at(self._source(name), last)
            sheet.read += [name] if name not in sheet.read else []
        held = sum(sheet.sources[name].total(self._counting()) for name in sheet.read)
        read = self.sums.read + self.sums.others
        if read - self.sums.brought != held:
            names = " and ".join(source.id for source in self.table.upstream)
            lasts = ", ".join(str(last) for _, last in entry.versions.values())
            yield (
                f"batch {entry.batch} (version {version}): {read} rows of {names} were read so far, "
                f"which holds {held} up to version {lasts}"
            )

    def _source(self, name: str) -> Place:
        """Return the folder of a source; of one that the table no longer reads by its name."""
        own = {source.id: self._lake.table(source) for source in self.table.upstream}
        return own.get(name) or place_of(self._lake.root, name)


def _entry_faults(version: int, entry: Entry) -> Iterable[str]:
    where = f"batch {entry.batch} (version {version})"
    if not entry.is_accounted:
        made = f" and made {entry.made_by_function}" if entry.made_by_function else ""
        yield f"{where} read {entry.read} rows{made} and accounts for {entry.accounted}"
    if entry.routed_by and entry.offsets and entry.read != _by_kind(entry):
        yield f"{where} read {entry.read} records and counts {_by_kind(entry)} by kind"
    if entry.duplicates < 0 and not entry.is_backfill:
        yield f"{where} wrote {-entry.duplicates} rows more than it read"
    for does, rows in entry.dropped_above.items():
        yield (
            f"{where} lost {rows} rows within its function: what {does} there refused them, because they were joined after "
            "the watermark had passed; `strandline rebuild` says what to write instead"
        )


def _by_kind(entry: Entry) -> int:
    named = sum(entry.kinds.values()) + sum(entry.unrouted.values())
    return named + entry.unrouted_more + entry.kindless


def _latest(sums: Sums, read: Source | None) -> Source:
    return Source(
        version=sums.version,
        written=sums.written + sums.removed,
        appended=sums.appended,
        removed=sums.removed,
        more=read.more if read else 0,
    )


def _source_of(found: Mapping[str, Any]) -> Source:
    return Source(**{**found, "by_kind": ByKind(**found.get("by_kind", {}))})


def _decoded(found: Mapping[str, Any]) -> Sheet:
    if not found:
        return Sheet()
    # Books that an older version closed lack what it did not know.
    values = {each.name: found[each.name] for each in fields(Sheet) if each.name in found}
    values["counting"] = Counting(values["counting"]) if values["counting"] else None
    values["sources"] = {name: _source_of(each) for name, each in values["sources"].items()}
    values["versions"] = {name: (a, b) for name, (a, b) in values["versions"].items()}
    for first in ("dropped_at", "lost_at"):
        values[first] = tuple(at) if (at := values.get(first)) else None
    return Sheet(**values)


# The books of a feed: each epoch begins where the one before ended, in the topics that it reads and in those it writes.


class FeedBooks(PlainBooks):
    """Follows the ledger of a feed."""

    read: Mapping[str, int]
    """The offsets up to which its last epoch has read."""
    counted: Mapping[str, int]
    """Those up to which its records were counted."""

    def encoded(self) -> dict[str, Any]:
        """Return what is carried forward beside the sums, as JSON."""
        return {**super().encoded(), "read": self.read, "counted": self.counted}

    def _restore(self, sheet: Mapping[str, Any]) -> bool:
        self.read = sheet.get("read", {})
        self.counted = sheet.get("counted", {})
        return super()._restore(sheet)

    def _add(self, version: int, entry: Entry) -> None:  # noqa: ARG002  # epochs are known by their numbers
        self.find(_gaps(entry, "read", entry.offsets, self.read))
        self.find(_gaps(entry, "counted", entry.sent, self.counted))
        if entry.dropped_by_watermark:
            self.find([_dropped(entry)])
        self.read = {part: end for part, (_, end) in entry.offsets.items()}
        self.counted = {part: end for part, (_, end) in entry.sent.items()}


def _dropped(entry: Entry) -> str:
    ranges = ", ".join(f"{part} [{first}, {end})" for part, (first, end) in entry.offsets.items())
    return (
        f"epoch {entry.batch} dropped {entry.dropped_by_watermark:,} events below the watermark that rules had found, "
        f"among {ranges}; `strandline rules backtest` over their time raises what was missed"
    )


def _gaps(entry: Entry, what: str, ranges: Offsets, ends: Mapping[str, int]) -> Iterator[str]:
    """Yield the gaps and overlaps between an epoch and the one before."""
    for part, end in ends.items():
        if part in ranges and ranges[part][0] != end:
            yield f"epoch {entry.batch} {what} {part} from offset {ranges[part][0]}, where the one before ended at {end}"


# Close the books: carry the sums of a table's ledger forward, and copy its entries to a table of the lake.
#
# Every so many commits the sums are written down (jobs/strandline/engine/lake/log/ledger_sums.py), and every reader begins there. The
# entries themselves go to ``ledger/entries``, where a query reads a year of them at once; one that sums a table's log has to
# open a file for each commit. Measured on a log of 50,000 commits: see ``python -m tests.benchmarks.old_ledger``.
#
# An entry is in that table exactly once, also when several processes close at once, or one is killed: rows and the last
# version that they cover are one Delta commit with a transaction of their table, of which Delta admits one
# (jobs/strandline/engine/lake/commit/delta_commit.py). The snapshot is written after it; one that is lost is taken again.
#
# Faults are carried forward like sums, so a reader of closed books finds them as well.


EVERY = 1_000
"""Commits after which books are closed: a reader opens at most so many files, 50 ms, and a close takes 0.2 s."""

SLICE = 5_000
"""How many entries are copied at once; all of a year would not fit into memory."""

MANY = 50
"""The number of files from which on those of the entries are compacted."""


def entry_columns() -> "pa.Schema":
    """Return the columns of the copies of entries."""
    return pa.schema(
        [
            ("table", pa.string()),
            ("log", pa.string()),
            ("version", pa.int64()),
            ("entry", pa.string()),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Books that were closed.

    Args:
        table: The name of the folder.
        until: The last version that is included.
        entries: How many entries were copied.
    """

    table: str
    until: int
    entries: int


def close(lake: Lake, tables: Sequence[Table], every: int = EVERY) -> list[Closed]:
    """Close the books of tables that have so many commits since they were closed last; return which.

    A shadow has none: its ledger becomes one entry when it is promoted.
    """
    if lake.is_rebuilding:
        return []
    opened = (partial(books_of, table, lake) for table in tables)
    return _close_all(lake, opened, every)


def close_or_reason(table: Table, lake: Lake) -> str:
    """Close the books of a table, and return why they stay open; no run fails for that, as its rows are committed."""
    try:
        close(lake, [table])
    except Exception as error:  # noqa: BLE001  # the next run closes them
        return f"{type(error).__name__}: {error}"
    return ""


def close_feeds(lake: Lake, every: int = EVERY) -> list[Closed]:
    """Close the books of feeds in the same way."""
    folder = lake.root / Feed.layer
    opened = (partial(_feed_books, folder / name) for name in folder.names())
    return _close_all(lake, opened, every)


def _feed_books(path: Place) -> Iterator[PlainBooks]:
    yield FeedBooks(path)


def books_of(table: Table, lake: Lake, *, from_start: bool = False) -> Iterator[PlainBooks]:
    """Yield the books of a table, and those of its quarantine and resolutions."""
    for path in lake.books(table):
        if path == lake.table(table):
            yield Books(table, lake, from_start=from_start)
        else:
            yield PlainBooks(path, from_start=from_start)


def _close_all(
    lake: Lake, opened: Iterable[Callable[[], Iterator[PlainBooks]]], every: int
) -> list[Closed]:
    """Close the books of each table.

    Raises:
        Exception: The first error, of one table; those of the others are closed.
    """
    closed, errors = list[Closed](), list[Exception]()
    for open_books in opened:
        try:
            closed += [done for each in open_books() if (done := _close(each, lake, every))]
        except Exception as error:  # noqa: BLE001  # raised below
            errors.append(error)
    if closed:
        compact(lake.closed_entries, MANY)
    if errors:
        raise errors[0]
    return closed


def _close(books: PlainBooks, lake: Lake, every: int) -> Closed | None:
    path, before = books.path, snapshot(books.path)
    if not is_table(path) or latest_version(path) - before.sums.version < every:
        return None
    until = books.follow().sums.version
    copied = _copy(path, lake, until)
    if copied is None:  # another process closes them
        return None
    chain = chained(path, before.chain, before.sums.version + 1, until)
    write(path, Snapshot(sums=books.sums, chain=chain, sheet=books.encoded()))
    return Closed(table=name_of(path), until=until, entries=copied)


def _copy(path: Place, lake: Lake, last: int) -> int | None:
    """Copy the entries up to a version that are not copied yet; return how many, or None where another process does."""
    name, log, subject = name_of(path), table_id(path), subject_of(path)
    copied = 0
    while True:
        entries = ClaimedRows(lake.closed_entries, entry_columns)
        first = entries.claimed(subject) + 1
        until = min(last, first + SLICE - 1)
        if until < first:
            return copied
        rows = [
            {"table": name, "log": log, "version": version, "entry": text}
            for version, text in texts(path, first, until)
        ]
        if not entries.append(rows, {subject: until}):
            return None
        copied += len(rows)


def subject_of(path: Place) -> str:
    """Return the name under which a table claims its entries; one that was created again has another."""
    return f"{name_of(path)}/{table_id(path)}"


def texts(path: Place, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Yield the entries of some versions as they are in the log."""
    for version in range(first, last + 1):
        if text := entry_text(path, version):
            yield version, text


def chained(path: Place, chain: str, first: int, last: int) -> str:
    """Return the hash over the entries of some versions, over the hash of those before."""
    for _, text in texts(path, first, last):
        chain = hashed(chain, text)
    return chain
