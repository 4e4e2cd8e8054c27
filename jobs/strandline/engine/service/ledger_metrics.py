"""The metrics of a lake's ledger: what each table read and wrote, where its rows are, how far it is behind its sources.

The books are followed from look to look as a stream does (jobs/strandline/engine/service/open_books.py): the first look begins at their last
close, each further one reads what was committed since. What needs the table itself (are its files there, has the quarantine its
rows) is for ``strandline ledger`` and for Dagster's checks: it costs a look at each file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from strandline.core.moment import in_utc
from strandline.core.table import Ingested, Table
from strandline.engine.accounting.table_books import Books
from strandline.engine.service.metric import Metric, Sample
from strandline.engine.service.open_books import OpenBooks
from strandline.engine.storage.commit_log import is_commit
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, entry_at, last_entry
from strandline.engine.storage.ledger_sums import Sums
from strandline.engine.storage.place import Place
from strandline.engine.storage.retired import retired

SEARCHED = 100
"""Commits of a source among which the oldest unread one with rows is looked for; more are maintenance, which is rare."""

TABLE = ("table",)
VERSION = Metric("strandline_table_version", "The table's newest version in Delta.", TABLE)
BATCHES = Metric("strandline_batches_total", "Batches in the ledger of a table.", TABLE)
READ = Metric("strandline_rows_read_total", "Rows that a table has read.", TABLE)
WRITTEN = Metric("strandline_rows_written_total", "Rows that a table has written.", TABLE)
ROWS = Metric(
    "strandline_ledger_rows",
    "Where the rows are that a table has read; a repair moves them from one class to another.",
    ("table", "class"),
)
HELD = Metric(
    "strandline_quarantined_rows",
    "Rows that the quarantine of a table holds, by their first reason.",
    ("table", "reason"),
)
BALANCED = Metric(
    "strandline_ledger_balanced",
    "1 if every row that a table has read is in exactly one place.",
    TABLE,
)
OFF = Metric(
    "strandline_ledger_unaccounted_rows",
    "Rows that a table has read and does not account for; below 0, rows that it counts twice.",
    TABLE,
)
FAULTS = Metric("strandline_ledger_faults", "Faults in the ledger of a table.", TABLE)
LOST = Metric(
    "strandline_lost_offsets_total",
    "Offsets that expired in Kafka before a table read them, and whose loss was accepted.",
    TABLE,
)
LAG = Metric(
    "strandline_table_lag_rows",
    "Rows of its sources that a table has not read; for bronze, offsets, while its stream runs.",
    TABLE,
)
BEHIND = Metric(
    "strandline_table_lag_seconds",
    "How long the oldest row that a table has not read waits; for bronze, since its newest record arrived.",
    TABLE,
)
TOOK = Metric("strandline_last_batch_duration_seconds", "Duration of a table's last batch.", TABLE)
AT = Metric("strandline_last_batch_timestamp_seconds", "When a table's last batch ended.", TABLE)
WATERMARK = Metric(
    "strandline_watermark_timestamp_seconds", "The watermark of a table's last batch.", TABLE
)
NEWEST = Metric(
    "strandline_newest_event_timestamp_seconds",
    "The newest event of a table's last batch; for bronze, the newest arrival.",
    TABLE,
)

DAMAGED = Metric(
    "strandline_table_damaged",
    "1 if the books of a table cannot be read: a torn commit, a folder of another user. It has no other figures then.",
    TABLE,
)

METRICS = (
    DAMAGED,
    *(VERSION, BATCHES, READ, WRITTEN, ROWS, HELD, BALANCED, OFF, FAULTS, LOST),
    *(LAG, BEHIND, TOOK, AT, WATERMARK, NEWEST),
)


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest entry of a table's own writer, up to a version."""

    version: int
    entry: Entry | None
    at: datetime | None


class LedgerFigures:
    """Follows the ledgers of a lake's tables from look to look."""

    def __init__(self, tables: Sequence[Table], lake: Lake) -> None:
        """Prepare; nothing is read yet."""
        self._tables, self._lake = tables, lake
        self._open, self._is_open = OpenBooks((), lake), False
        self._newest: dict[str, _Newest] = {}
        self._unread_since: dict[tuple[str, str], tuple[int, datetime | None]] = {}
        """For each table and source the first unread version, and when the first one with rows was committed."""

    def follow(self) -> list[Table]:
        """Read what was committed since the last look; return the tables that exist."""
        if not self._is_open or any(self._is_gone(table) for table in self._existing()):
            self._open, self._is_open = OpenBooks(self._tables, self._lake), True
            self._newest, self._unread_since = {}, {}
        self._open.follow()
        return self._existing()

    def samples(self, offsets_behind: Mapping[str, int], now: datetime) -> Iterator[Sample]:
        """Yield the metrics of the tables that exist; of a retired one none of how far it is behind.

        Args:
            offsets_behind: For bronze, the offsets that are not read, as far as they are known.
            now: The time.
        """
        ended = retired(self._lake)
        there = {table.id for table in self._existing()}
        for name in dict.fromkeys([*sorted(there), *self._open.unreadable]):
            yield DAMAGED.of(name in self._open.unreadable, name)
        for table in self._existing():
            if table.id in self._open.unreadable:
                continue  # no figure is better than one of an earlier look
            sums = self._open.of(table).sums
            newest = self._newest[table.id] = self._newest_of(table, sums.version)
            yield VERSION.of(sums.version, table.id)
            yield from _counts(table, self._open.of(table))
            yield from _last_batch(table, newest)
            if table.id in ended:
                continue  # it is behind nothing
            if isinstance(table, Ingested):
                rows = offsets_behind.get(table.id)
                since = _moment(newest.entry.newest_arrival) if newest.entry else None
            else:
                rows = self._open.unread(table)
                since = self._oldest_unread(table) if rows else None
            if rows is not None:
                yield from _lag(table, rows, since, now)

    def _existing(self) -> list[Table]:
        tables = self._tables if self._is_open else ()
        known = (table for table in tables if self._open.knows(table))
        return [table for table in known if self._open.of(table).sums.version >= 0]

    def _is_gone(self, table: Table) -> bool:
        """Return whether a table was removed, or created again, since the last look."""
        try:
            return not is_commit(self._lake.table(table), self._open.of(table).sums.version)
        except PermissionError:  # what cannot be looked at is not gone
            return False

    def _newest_of(self, table: Table, version: int) -> _Newest:
        known = self._newest.get(table.id)
        if known is not None and known.version == version:
            return known
        path = self._lake.table(table)
        found = last_entry(path, version)
        at = committed_at(path, found[0]) if found else None
        return _Newest(version, found[1] if found else None, at)

    def _oldest_unread(self, table: Table) -> datetime | None:
        """Return when the oldest commit of its sources with rows that it has not read was made."""
        seen, moments = self._open.of(table).sums.seen, []
        for source in table.upstream:
            first, last = seen.get(source.id, -1) + 1, self._open.of(source).sums.version
            key = (table.id, source.id)
            known, moment = self._unread_since.get(key, (-1, None))
            if known != first or moment is None:
                moment = _first_with_rows(self._lake.table(source), first, last)
                self._unread_since[key] = (first, moment)
            moments.append(moment)
        return min((each for each in moments if each), default=None)


def _lag(table: Table, rows: int, since: datetime | None, now: datetime) -> Iterator[Sample]:
    """Yield how far a table is behind; for how long only where that is known."""
    yield LAG.of(rows, table.id)
    if not rows or since is not None:
        waits = (now - since).total_seconds() if rows and since else 0.0
        yield BEHIND.of(max(0.0, waits), table.id)


def _first_with_rows(path: Place, first: int, last: int) -> datetime | None:
    for version in range(first, min(last, first + SEARCHED) + 1):
        entry = entry_at(path, version)
        if entry is not None and entry.appended:
            return committed_at(path, version)
    return None


def _counts(table: Table, books: Books) -> Iterator[Sample]:
    sums = books.sums
    classes = _classes(sums)
    yield BATCHES.of(sums.batches, table.id)
    yield READ.of(sums.read, table.id)
    yield WRITTEN.of(sums.written, table.id)
    for name, rows in classes.items():
        yield ROWS.of(rows, table.id, name)
    for reason, rows in sums.held.items():
        yield HELD.of(rows, table.id, reason)
    faults = len(books.faults) + sum(bool(classes[name]) for name in ("dropped", "lost", "made"))
    yield BALANCED.of(not faults, table.id)
    yield OFF.of(sums.read + 2 * classes["made"] - sum(classes.values()), table.id)
    yield FAULTS.of(faults, table.id)
    if isinstance(table, Ingested):
        ranges = (each for found in sums.lost.values() for each in found)
        yield LOST.of(sum(end - first for first, end in ranges), table.id)


def _classes(sums: Sums) -> dict[str, int]:
    """Return the columns of ``strandline ledger``; a row that was dropped and then healed is not dropped any more."""
    healed, found_again = sums.dropped_and_healed, sums.lost_and_healed
    return {
        "good": sums.good + sums.brought_back,
        "duplicate": sums.duplicates + healed + found_again,
        "quarantined": sum(sums.held.values()),
        "dropped": sums.dropped - healed - sums.brought_back,
        "lost": sums.lost_by_function - found_again,
        "made": sums.made_by_function,
    }


def _last_batch(table: Table, newest: _Newest) -> Iterator[Sample]:
    entry = newest.entry
    if entry is None or newest.at is None:
        return
    yield TOOK.of(entry.duration_ms / 1000, table.id)
    yield AT.of(newest.at.timestamp(), table.id)
    for metric, text in (
        (WATERMARK, entry.watermark),
        (NEWEST, entry.newest or entry.newest_arrival),
    ):
        moment = _moment(text)
        if moment is not None:
            yield metric.of(moment.timestamp(), table.id)


def _moment(text: str | None) -> datetime | None:
    return in_utc(datetime.fromisoformat(text)) if text else None
