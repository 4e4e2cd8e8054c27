"""Close the books: carry the sums of a table's ledger forward, and copy its entries to a table of the lake.

Every so many commits the sums are written down (jobs/strandline/engine/storage/ledger_snapshot.py), and every reader begins there. The
entries themselves go to ``ledger/entries``, where a query reads a year of them at once; one that sums a table's log has to
open a file for each commit. Measured on a log of 50,000 commits: see ``python -m tests.benchmarks.old_ledger``.

An entry is in that table exactly once, also when several processes close at once, or one is killed: rows and the last
version that they cover are one Delta commit with a transaction of their table, of which Delta admits one
(jobs/strandline/engine/storage/claimed_rows.py). The snapshot is written after it; one that is lost is taken again.

Faults are carried forward like sums, so a reader of closed books finds them as well.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from strandline.core.feed import Feed
from strandline.core.table import Table
from strandline.engine.accounting.feed_books import FeedBooks
from strandline.engine.accounting.plain_books import PlainBooks
from strandline.engine.accounting.table_books import Books
from strandline.engine.storage.claimed_rows import ClaimedRows, compact
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table, latest_version
from strandline.engine.storage.ledger_snapshot import (
    Snapshot,
    entry_text,
    hashed,
    name_of,
    snapshot,
    write,
)
from strandline.engine.storage.place import Place

EVERY = 1_000
"""Commits after which books are closed: a reader opens at most so many files, 50 ms, and a close takes 0.2 s."""

SLICE = 5_000
"""How many entries are copied at once; all of a year would not fit into memory."""

MANY = 50
"""The number of files from which on those of the entries are compacted."""

SCHEMA = pa.schema(
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
        entries = ClaimedRows(lake.closed_entries, SCHEMA)
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
