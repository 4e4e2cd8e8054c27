"""Writing gold: windows once when they close, or their latest state whenever they change.

Why a change is no MERGE: MERGE reads its target twice and joins it whole. A table that speaks on change is
partitioned by the start of its windows, so it is known which files a batch touches (jobs/run/shelf.py), and
what those hold beside the changed rows is copied within the same write.

Where another table compares what came and went, the entry says of which time this one speaks anew: the batch has both
sides at hand, and each follower would have to read every file that was written again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import catalog
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.churn import NO_TIME, Reach, hull, reach_of, reach_of_change
from jobs.run.lease import turn
from jobs.run.ledger import Entry
from jobs.run.meter import Meter
from jobs.run.same_key import by_key
from jobs.run.shelf import Shelf

Settle = Callable[[], Entry]


class Windows:
    """A gold table as its stream writes it."""

    def __init__(self, table: Table, path: Path) -> None:
        """Prepare; one for the life of a stream, because it remembers where each window lies."""
        self._table = table
        self._path = path
        self._shelf = Shelf(str(table.window_from))
        self._is_compared = any(table in each.compares for each in catalog.tables())

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
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            touched = self._touched(kept)
            with turn(rows.sparkSession, self._path):  # a backfill might take the same files away
                return self._put(kept, touched, settle, meter)
        finally:
            kept.unpersist()

    def _touched(self, rows: DataFrame) -> dict[int, Reach]:
        """Return where the windows of some rows start, and of which time the rows of each speak."""
        at = F.unix_micros(str(self._table.event_at))
        by_start = rows.groupBy(F.unix_micros(str(self._table.window_from)))
        return {row[0]: (row[1], row[2]) for row in by_start.agg(F.min(at), F.max(at)).collect()}

    def _put(
        self, rows: DataFrame, touched: Mapping[int, Reach], settle: Settle, meter: Meter
    ) -> Entry | None:
        commit = delta.Commit(rows.sparkSession, self._path)
        older = self._shelf.holding(commit, touched)
        latest, held = rows, None
        if older:
            key = list(self._table.key)
            held = commit.take_out(older)
            coming = F.broadcast(rows.select(*key))
            latest = rows.unionByName(by_key(held, coming, key, "left_anti"))
        written = commit.write(latest.coalesce(1)) if touched else delta.NOTHING
        entry = _entry(settle(), written.rows, meter)
        if entry is not None:
            told = replace(entry, speaks_of=self._speaks_of(rows, held, touched))
            version = commit.commit(told.encoded())
            self._shelf.replaced(version, touched, written)
        return entry

    def _speaks_of(
        self, rows: DataFrame, held: DataFrame | None, touched: Mapping[int, Reach]
    ) -> Reach | None:
        """Return of which time the table says something else, if somebody asks.

        What stood there before need not be read where a row with the same key has the same time, and only that one.
        """
        table = self._table
        if not self._is_compared:
            return None
        if not touched or (table.valid_until is None and table.event_at in table.key):
            return hull([reach for reach in touched.values() if None not in reach]) or NO_TIME
        return reach_of(rows, table) if held is None else reach_of_change(rows, held, table)


def _entry(entry: Entry, written: int, meter: Meter) -> Entry | None:
    """Close an entry; there is none for a batch in which nothing was read and nothing said."""
    if not entry.read and not written:
        return None
    return entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
