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
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import catalog
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.churn import NO_TIME, Reach, hull, reach_of, reach_of_change
from jobs.run.lease import turn
from jobs.run.ledger import Entry, latest_version
from jobs.run.meter import Meter
from jobs.run.same_key import by_key
from jobs.run.shelf import Shelf
from jobs.run.sized import SMALL, rows_in, sized, write

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
        written = write(commit, rows).rows
        entry = _entry(settle(), written, meter)
        if entry is not None:
            commit.commit(entry.encoded())
        return entry

    def change(self, rows: DataFrame, settle: Settle, meter: Meter) -> Entry | None:
        """Put windows in the place of what was known of them.

        Files are written outside the turn. A backfill that came meanwhile may have taken some of the same ones away,
        so then this batch, which is small beside it, is written again in the turn.
        """
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            touched, count = self._touched(kept)
            put = self._put(kept, touched, count)
            entry = settle()
            with turn(rows.sparkSession, self._path):
                if put.commit.read_version != latest_version(self._path):
                    put.commit.abandon()
                    put = self._put(kept, touched, count)
                final = _entry(entry, put.written.rows, meter)
                if final is not None:
                    version = put.commit.commit(replace(final, speaks_of=put.reach).encoded())
                    self._shelf.replaced(version, touched, put.written)
                return final
        finally:
            kept.unpersist()

    def _touched(self, rows: DataFrame) -> tuple[dict[int, Reach], int]:
        """Return where the windows of some rows start, of which time the rows of each speak, and how many there are."""
        at = F.unix_micros(str(self._table.event_at))
        by_start = rows.groupBy(F.unix_micros(str(self._table.window_from)))
        found = by_start.agg(F.min(at), F.max(at), F.count("*")).collect()
        return {row[0]: (row[1], row[2]) for row in found}, sum(row[3] for row in found)

    def _put(self, rows: DataFrame, touched: Mapping[int, Reach], count: int) -> "_Put":
        """Write windows, and what lies beside those that they replace."""
        commit = delta.Commit(rows.sparkSession, self._path)
        older = self._shelf.holding(commit, touched)
        latest, held = rows, None
        if older:
            key = list(self._table.key)
            held = commit.take_out(older)
            said = rows.select(*key)
            coming = F.broadcast(said) if count <= SMALL else said
            others = by_key(held, coming, key, "left_anti")
            latest = rows.unionByName(others)
            count += sum(map(rows_in, older))
        written = delta.NOTHING
        if touched:
            folder = str(self._table.window_from)
            written = commit.write(sized(latest, count, folder=folder, folders=len(touched)))
        return _Put(commit, written, self._speaks_of(rows, held, touched))

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


class _Put(NamedTuple):
    """What was written and not yet committed, and of which time the table says something else then."""

    commit: delta.Commit
    written: delta.Written
    reach: Reach | None


def _entry(entry: Entry, written: int, meter: Meter) -> Entry | None:
    """Close an entry; there is none for a batch in which nothing was read and nothing said."""
    if not entry.read and not written:
        return None
    return entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
