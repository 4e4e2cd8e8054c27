"""Prove closed books from the first commit: add up the whole log again, and compare.

What every other reader takes from a snapshot is not believed here: each entry is read again and checked against its
sources, and must give the sums, the chain of hashes and the copies that were written when the books were closed.
It takes as long as the history is.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict

from strandline.core.table import Table
from strandline.engine.accounting.close_ledger import (
    SCHEMA,
    SLICE,
    books_of,
    chained,
    subject_of,
    texts,
)
from strandline.engine.accounting.plain_books import PlainBooks
from strandline.engine.accounting.table_books import Books
from strandline.engine.storage.claimed_rows import ClaimedRows
from strandline.engine.storage.duckdb_table import Peek, peek
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.ledger_snapshot import name_of, snapshot
from strandline.engine.storage.place import Place

COPIES = """
    SELECT version, entry FROM entries
    WHERE "table" = getvariable('table_') AND log = getvariable('log_')
    AND version BETWEEN getvariable('first_') AND getvariable('last_') ORDER BY version
"""


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
    until = ClaimedRows(lake.closed_entries, SCHEMA).claimed(subject_of(path))
    copies = peek(lake.closed_entries, "entries")
    for first in range(0, until + 1, SLICE):
        last = min(until, first + SLICE - 1)
        if _copied(copies, path, first, last) != [*texts(path, first, last)]:
            yield f"the copied entries of versions {first} to {last} are not those of its log"


def _copied(copies: Peek, path: Place, first: int, last: int) -> list[tuple[object, ...]]:
    return copies.ask(COPIES, table_=name_of(path), log_=table_id(path), first_=first, last_=last)
