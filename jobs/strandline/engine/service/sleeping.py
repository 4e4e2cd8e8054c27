"""Tables of a stream that have had nothing to read for a while: their queries end, and one look at all of them finds what is new.

A query that waits is not free: at every trigger Spark plans, lists the log of its source and notes that nothing came, and its threads
in the JVM stay (infra/docs/sizing.md has the figures). A table that sleeps has no query and no client of Kafka. It keeps its lease, so that
for all others the stream is its writer as before; who finds news starts the query again, which takes about a second.

What wakes a table is not the count of rows alone: any commit of a table that it needs does, and any of its own. A backfill or a
promotion changes rows, and the number of rows that are to be read stays.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from strandline.core.errors import LakeError
from strandline.core.table import Streamed, Table
from strandline.engine.accounting.gate_files import behind_source
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Rest
from strandline.engine.lake.lake import Lake

AFTER = 180.0
"""Seconds without news: to start a query again costs as much as some idle minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """What there was when a table had nothing to read: its declaration, and the versions of its own and of what it needs."""

    table: Table
    versions: Mapping[str, int | None]
    since: float


class Sleepers:
    """Knows which tables have had nothing to read for how long; measured by one thread, asked by those of the tables."""

    def __init__(
        self, lake: Lake, after: float = AFTER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with all tables awake; they stay so where ``after`` is 0."""
        self._lake, self._after, self._clock = lake, after, clock
        self._quiet: dict[str, Quiet] = {}
        self._news: dict[str, threading.Event] = {}
        """What each table waits for that is to rest, or does."""
        self.asleep: set[str] = set()
        """The tables without a query."""

    def measured(
        self, table: Table, lag: int | None, versions: Mapping[str, int | None], *, works: bool
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
        elif now - seen.since >= self._after and name not in self._news and self._has_done(table):
            self._news[name] = threading.Event()

    def _has_done(self, table: Table) -> bool:
        """Return whether no batch follows from those that are done, as one that closes windows, and no gate keeps it from a look."""
        try:
            is_done = not isinstance(table, Streamed) or is_settled(table, self._lake)
            return is_done and not behind_source(table, self._lake)
        except (OSError, LakeError, ValueError):
            return False

    def wake(self, name: str) -> None:
        """Let a table read on, whatever there is for it."""
        self._quiet.pop(name, None)
        if (news := self._news.pop(name, None)) is not None:
            news.set()

    def wake_all(self) -> None:
        """Let all tables read on, as to stop."""
        for name in [*self._news]:
            self.wake(name)

    def of(self, table: Table, heard: Callable[[bool], None]) -> Rest:
        """Return the rest of a table; ``heard`` is called with whether it sleeps."""
        return Rest(
            is_due=partial(self._is_due, table.id), take=partial(self._rest, table.id, heard)
        )

    def _is_due(self, name: str) -> bool:
        return name in self._news

    def _rest(self, name: str, heard: Callable[[bool], None]) -> None:
        news = self._news.get(name)
        if news is None:  # they came while the query ended
            return
        self.asleep.add(name)
        heard(True)
        try:
            news.wait()
        finally:
            self.asleep.discard(name)
            heard(False)
