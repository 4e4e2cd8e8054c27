"""The books of a stream's tables while it runs: followed, and closed from time to time.

The books of a stream's tables, followed while it runs: how many rows of its sources each table has not read.

Books that cannot be read (a torn commit, a folder of another user) are those of one table: the others are followed, and
what ended the look is kept by the table's name.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from strandline.core.table import Table
from strandline.engine.accounting.table_books import Books, Closed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import Sums, follow, snapshot
from strandline.engine.runtime.outage import absence


class OpenBooks:
    """What the tables of a stream have read, and what their sources have."""

    def __init__(self, tables: Sequence[Table], lake: Lake) -> None:
        """Begin at the last snapshots, at the first look."""
        self._tables = tables
        self._lake = lake
        self._books: dict[str, Books] = {}
        self._others: dict[str, Sums] = {}
        """The sums of sources that other processes write."""
        self.unreadable: dict[str, Exception] = {}
        """What ended the last look at a table's books, or at those of a source that other processes write."""

    def follow(self) -> None:
        """Read the entries since the last call."""
        self.unreadable = {}
        # Readers before their sources: a source that commits meanwhile must not seem to be read ahead.
        for table in reversed(self._tables):
            self._look(table, self._follow)
        own = {table.id for table in self._tables}
        for source in (each for table in self._tables for each in table.upstream):
            if source.id not in own:
                self._look(source, self._follow_other)

    def of(self, table: Table) -> Books:
        """Return the books of a table, as far as they were followed."""
        return self._books[table.id]

    def knows(self, table: Table) -> bool:
        """Return whether the books of a table were ever read."""
        return table.id in self._books

    def unread(self, table: Table) -> int | None:
        """Return how many rows of its sources a table has not read; None where books of these cannot be read."""
        known = {name: books.sums for name, books in self._books.items()} | self._others
        needed = {table.id, *(each.id for each in table.upstream)}
        if needed & self.unreadable.keys() or not needed <= known.keys():
            return None
        return self._books[table.id].unread({each.id: known[each.id] for each in table.upstream})

    def _look(self, table: Table, follow_it: Callable[[Table], None]) -> None:
        try:
            follow_it(table)
        except Exception as error:
            if absence(error) is not None:  # of all tables alike
                raise
            self.unreadable[table.id] = error

    def _follow(self, table: Table) -> None:
        if table.id not in self._books:
            self._books[table.id] = Books(table, self._lake)
        self._books[table.id].follow()

    def _follow_other(self, source: Table) -> None:
        path = self._lake.table(source)
        if source.id not in self._others:
            self._others[source.id] = snapshot(path).sums
        follow(path, self._others[source.id])


# Close books from time to time, beside the process that writes them.
#
# It is a thread of its own, because the first time on an old lake takes seconds, in which a heartbeat would be late.
# Books that cannot be closed stay open, and cost their readers more entries; the next attempt is in a minute.


PAUSE = 60.0
"""Seconds between two looks whether books are to be closed."""

KEPT = 100
"""How many results are kept until they are taken."""


class BookCloser(threading.Thread):
    """Closes books until it is ended."""

    def __init__(self, close: Callable[[], Sequence[Closed]]) -> None:
        """Prepare; ``close`` closes the books that have many commits, and returns which."""
        super().__init__(name="books", daemon=True)
        self._close = close
        self._ended = threading.Event()
        self._news: deque[Closed | Exception] = deque(maxlen=KEPT)

    def run(self) -> None:
        """Look once a minute."""
        while not self._ended.wait(PAUSE):
            try:
                self._news.extend(self._close())
            except Exception as error:  # noqa: BLE001  # it is logged, and no batch needs closed books
                self._news.append(error)

    def end(self) -> None:
        """End after the running look."""
        self._ended.set()

    def news(self) -> list[Closed | Exception]:
        """Take what was closed since the last call, and the errors."""
        taken = list[Closed | Exception]()
        while self._news:
            taken.append(self._news.popleft())
        return taken
