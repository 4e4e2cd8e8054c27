"""Writing gold: windows once when they close, or their latest state whenever they change.

Why a change is no MERGE: MERGE reads its target twice and joins it whole. A table that speaks on change is
partitioned by the start of its windows, so it is known which files a batch touches (jobs/run/shelf.py), and
what those hold beside the changed rows is copied within the same write.
"""

from collections.abc import Callable
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run import delta
from jobs.run.lease import turn
from jobs.run.ledger import Entry
from jobs.run.meter import Meter
from jobs.run.shelf import Shelf

Settle = Callable[[], Entry]


class Windows:
    """A gold table as its stream writes it."""

    def __init__(self, table: Table, path: Path) -> None:
        """Prepare; one for the life of a stream, because it remembers where each window lies."""
        self._table = table
        self._path = path
        self._shelf = Shelf(str(table.window_from))

    def append(self, rows: DataFrame, settle: Settle, meter: Meter) -> Entry | None:
        """Add windows that are final."""
        commit = delta.Commit(rows.sparkSession, self._path)
        written = commit.write(rows.coalesce(1)).rows
        entry = _entry(settle(), written, meter)
        if entry is not None:
            commit.commit(entry.encoded())
        return entry

    def change(self, rows: DataFrame, settle: Settle, meter: Meter) -> Entry | None:
        """Put windows in the place of what was known of them."""
        starts = str(self._table.window_from)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            touched = {row[0] for row in kept.select(F.unix_micros(starts)).distinct().collect()}
            with turn(rows.sparkSession, self._path):  # a backfill might take the same files away
                return self._put(kept, touched, settle, meter)
        finally:
            kept.unpersist()

    def _put(
        self, rows: DataFrame, touched: set[int], settle: Settle, meter: Meter
    ) -> Entry | None:
        commit = delta.Commit(rows.sparkSession, self._path)
        older = self._shelf.holding(commit, touched)
        latest = rows
        if older:
            key = list(self._table.key)
            changed = F.broadcast(rows.select(*key))
            others = commit.take_out(older).join(changed, key, "left_anti")
            latest = rows.unionByName(others)
        written = commit.write(latest.coalesce(1)) if touched else delta.NOTHING
        entry = _entry(settle(), written.rows, meter)
        if entry is not None:
            version = commit.commit(entry.encoded())
            self._shelf.replaced(version, touched, written)
        return entry


def _entry(entry: Entry, written: int, meter: Meter) -> Entry | None:
    """Close an entry; there is none for a batch in which nothing was read and nothing said."""
    if not entry.read and not written:
        return None
    return entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
