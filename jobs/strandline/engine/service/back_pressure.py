"""When a bronze table waits with a batch of few rows, because tables of the same process are behind.

A batch has a fixed cost, however few its rows are. On two busy cores bronze made a batch of thirty rows every eight seconds, and
silver and gold committed nothing for four minutes: what is read from Kafka sooner is worth nothing while nothing above reads it.
So a batch of few rows gives way, to its own readers until they have moved, and to others for some times what its last batch
took; never for long, so that no other table is a minute behind for one that hangs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from strandline.core.table import Table

FEW = 5_000
"""From so many rows on a batch costs more for its rows than for being one."""

LONGEST = 30.0
"""Seconds from a table's last commit for which its next batch gives way at most."""

GRACE = 5.0
"""Seconds for which a table may have rows to read and commit none; within them it is at its batch."""

HANGS = 600.0
"""A table that has committed none for so long is stuck, and no other waits for it."""

SHARE = 4.0
"""A batch of few rows gives way to tables that do not read from it for so many times what the last one took."""


@dataclass(slots=True)
class _Seen:
    """What is known of a table."""

    lag: int | None = None
    behind: float | None = None
    """Since when it has had rows to read, and has committed none."""
    committed: float | None = None
    took: float = 0.0


class BackPressure:
    """Knows which tables are behind, and who gives way to them."""

    def __init__(
        self,
        tables: Sequence[Table],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing known, so that no table gives way."""
        self._clock = clock
        self._grace = max(GRACE, 2 * every)
        self._seen = {table.id: _Seen() for table in tables}
        self._readers = {table.id: set(_readers(table, tables)) for table in tables}

    def committed(self, name: str, seconds: float) -> None:
        """Note that a table has committed a batch, and how long that took."""
        seen = self._seen[name]
        seen.committed, seen.took, seen.behind = self._clock(), seconds, None

    def measured(self, name: str, lag: int | None, *, waits: bool) -> None:
        """Note how many rows a table has to read, and whether it waits for something else than its turn."""
        seen = self._seen[name]
        seen.lag = lag
        if not lag or waits:
            seen.behind = None
        elif seen.behind is None:
            seen.behind = self._clock()

    def gives_way(self, name: str) -> bool:
        """Return whether the next batch of a table is to wait."""
        seen = self._seen[name]
        if seen.committed is None or seen.lag is None or seen.lag >= FEW:
            return False
        since = self._clock() - seen.committed
        if since >= LONGEST:
            return False
        behind = {each for each in self._seen if each != name and self._is_behind(each)}
        if behind & self._readers[name]:
            return True
        return bool(behind) and since < SHARE * seen.took

    def _is_behind(self, name: str) -> bool:
        since = self._seen[name].behind
        return since is not None and self._grace <= self._clock() - since < HANGS


def _readers(table: Table, tables: Sequence[Table]) -> Iterator[str]:
    """Yield the tables that read a table, and those that read these."""
    for each in tables:
        if table.id in {source.id for source in each.upstream}:
            yield each.id
            yield from _readers(each, tables)
