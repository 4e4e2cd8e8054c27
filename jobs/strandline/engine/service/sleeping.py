"""Tables of a stream that have had nothing to read for a while: their queries end, and one look at all of them finds what is new.

A query that waits is not free: at every trigger Spark plans, lists the log of its source and notes that nothing came, and its threads
in Python and in the JVM stay (infra/docs/sizing.md has the figures). A table that sleeps has no query, no thread and no lease, so other
processes may write it; who finds news starts it like one whose turn has come, which takes about a second.

What wakes a table is not the count of rows alone: any commit of a table that it needs does, and any of its own that another process
makes. A backfill or a promotion changes rows, and the number of rows that are to be read stays.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from strandline.core.table import Streamed, Table
from strandline.engine.flow.query import is_settled
from strandline.engine.lake.lake import Lake

AFTER = 180.0
"""Seconds without news: to start a table again costs as much as some idle minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """What there was when a table had nothing to read: its declaration, and the versions of its own and of what it needs."""

    table: Table
    versions: Mapping[str, int]
    since: float


class Sleepers:
    """Knows which tables have had nothing to read for how long; measured by one thread, asked by those of the tables."""

    def __init__(
        self, lake: Lake, after: float = AFTER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with all tables awake; they stay so where ``after`` is 0."""
        self._lake, self._after, self._clock = lake, after, clock
        self._quiet: dict[str, Quiet] = {}
        self._tired: set[str] = set()
        self._turn = threading.Lock()
        self.asleep: set[str] = set()
        """The tables that no thread feeds."""

    def measured(
        self, table: Table, lag: int | None, versions: Mapping[str, int], *, works: bool
    ) -> None:
        """Note the rows that a table has to read, the versions, and whether it is at a batch or waits for something."""
        if not self._after or table.static:
            return  # what the file of a static table has, only the table's own run sees
        name, now = table.id, self._clock()
        seen = None if lag != 0 or works else self._quiet.get(name)
        if seen is None or seen.table is not table or seen.versions != versions:
            self.wake(name)
            if lag == 0 and not works:
                self._quiet[name] = Quiet(table=table, versions=versions, since=now)
        elif now - seen.since >= self._after and name not in self._tired and self._has_done(table):
            with self._turn:
                self._tired.add(name)

    def _has_done(self, table: Table) -> bool:
        """Return whether no batch follows from those that are done, as one that closes windows."""
        return not isinstance(table, Streamed) or is_settled(table, self._lake)

    def is_tired(self, name: str) -> bool:
        """Return whether the query of a table is to end."""
        return name in self._tired

    def lies_down(self, name: str) -> bool:
        """Return whether a table whose query has ended sleeps from now on: news may have come meanwhile."""
        with self._turn:
            if name in self._tired:
                self.asleep.add(name)
            return name in self._tired

    def woken(self, name: str) -> bool:
        """Return whether a table that slept has news, and so has to be fed again."""
        with self._turn:
            if name not in self.asleep or name in self._tired:
                return False
            self.asleep.discard(name)
            return True

    def wake(self, name: str) -> None:
        """Let a table be fed again, whatever it has to read."""
        with self._turn:
            self._tired.discard(name)
        self._quiet.pop(name, None)
