"""The books of a stream's tables, followed while it runs: how many rows of its sources each table has not read."""

from collections.abc import Sequence

from jobs.core.table import Table
from jobs.engine.accounting.table_books import Books
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger_snapshot import snapshot
from jobs.engine.storage.ledger_sums import follow


class OpenBooks:
    """What the tables of a stream have read, and what their sources have."""

    def __init__(self, tables: Sequence[Table], lake: Lake) -> None:
        """Begin at the last snapshots."""
        self._books = {table.id: Books(table, lake) for table in tables}
        sources = {each.id: lake.table(each) for table in tables for each in table.upstream}
        self._others = {
            name: (path, snapshot(path).sums)
            for name, path in sources.items()
            if name not in self._books
        }
        """The sums of sources that other processes write."""

    def follow(self) -> None:
        """Read the entries since the last call."""
        # Readers before their sources: a source that commits meanwhile must not seem to be read ahead.
        for books in reversed(self._books.values()):
            books.follow()
        for path, sums in self._others.values():
            follow(path, sums)

    def of(self, table: Table) -> Books:
        """Return the books of a table, as far as they were followed."""
        return self._books[table.id]

    def unread(self, table: Table) -> int:
        """Return how many rows of its sources a table has not read."""
        known = {name: books.sums for name, books in self._books.items()}
        known |= {name: sums for name, (_, sums) in self._others.items()}
        return self._books[table.id].unread({each.id: known[each.id] for each in table.upstream})
