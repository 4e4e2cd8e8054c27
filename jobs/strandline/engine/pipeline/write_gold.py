"""Writing gold: windows once when they close, or their latest state whenever they change.

Why a change is no MERGE: MERGE reads its target twice and joins it whole. A table that emits updates is
partitioned by the start of its windows, so it is known which files a batch touches (jobs/strandline/engine/storage/window_index.py), and
the unchanged rows in those files are copied within the same write.

Where another table follows the changes of this one, the entry has the event-time range of the change: the batch has
the rows before and after at hand, and each follower would have to read every rewritten file.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.table import Derived, Upserted, Windowed
from strandline.engine.runtime.meter import Meter
from strandline.engine.storage import delta_commit
from strandline.engine.storage.changed_range import NO_TIME, Reach, hull, reach_of, reach_of_change
from strandline.engine.storage.join_by_key import by_key
from strandline.engine.storage.ledger import Entry, latest_version
from strandline.engine.storage.locks import turn
from strandline.engine.storage.output_files import SMALL, rows_in, sized, write
from strandline.engine.storage.place import Place
from strandline.engine.storage.window_index import WindowIndex

Dropped: TypeAlias = Mapping[str, int]


def append(  # noqa: PLR0913  # what is written, where, and what is known of it
    rows: DataFrame,
    path: Place,
    entry: Entry,
    meter: Meter,
    *,
    dropped: Callable[[], Dropped] = dict,
    refused: Callable[[Entry], Entry] | None = None,
    table: Derived | None = None,
    selects: bool = False,
) -> Entry | None:
    """Add rows that are final.

    Args:
        rows: The rows.
        path: The table's folder.
        entry: The batch's entry.
        meter: Measures the batch.
        dropped: Counts the rows that an operator dropped.
        refused: Adds the rows of the sources that Spark dropped, where these may be more than the entry has.
        table: The table, whose windows may say how many rows they count.
        selects: Whether its function leaves rows out and does nothing else to their number.
    """
    commit = delta_commit.Commit(rows.sparkSession, path)
    written = write(commit, rows, counts=counting_column(table))
    entry = replace(entry, dropped_above=dropped())
    if refused is not None:
        entry = refused(entry)
    filled = entry.taken_in(written=written.rows, counted=written.counted, selects=selects)
    final = _closed(filled, written.rows, meter)
    if final is not None:
        commit.commit(final.encoded())
    return final


def counting_column(table: Derived | None) -> str | None:
    """Return the column with the number of source rows that a row aggregates, where there is one."""
    return table.source_count if isinstance(table, Windowed) else None


class Windows:
    """A table that emits updates, as its stream writes it."""

    def __init__(self, table: Upserted, path: Place) -> None:
        """Prepare to write; one object for the life of a stream, because it caches which file holds which window."""
        self._table = table
        self._path = path
        self._windows = WindowIndex(table.window_from)
        self._is_compared = any(table in each.change_sources for each in catalog.tables())

    def change(self, rows: DataFrame, entry: Entry, meter: Meter) -> Entry | None:
        """Replace the rows of windows that changed.

        Files are written outside the commit turn. A backfill that commits meanwhile may have removed some of the same
        files; then this batch, which is small beside it, is written again within the turn.
        """
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            touched, count = self._touched(kept)
            put = self._put(kept, touched, count)
            with turn(rows.sparkSession, self._path):
                if put.commit.read_version != latest_version(self._path):
                    put.commit.abandon()
                    put = self._put(kept, touched, count)
                final = _closed(entry, put.written.rows, meter)
                if final is not None:
                    version = put.commit.commit(replace(final, changed=put.reach).encoded())
                    self._windows.replaced(version, touched, put.written)
                return final
        finally:
            kept.unpersist()

    def _touched(self, rows: DataFrame) -> tuple[dict[int, Reach], int]:
        """Return for each start of a window the event-time range of its rows, and the number of all rows."""
        at = F.unix_micros(self._table.event_at)
        by_start = rows.groupBy(F.unix_micros(self._table.window_from))
        found = by_start.agg(F.min(at), F.max(at), F.count("*")).collect()
        return {row[0]: (row[1], row[2]) for row in found}, sum(row[3] for row in found)

    def _put(self, rows: DataFrame, touched: Mapping[int, Reach], count: int) -> "_Put":
        """Write changed windows, and copy the unchanged rows of the files that they replace."""
        commit = delta_commit.Commit(rows.sparkSession, self._path)
        older = self._windows.holding(commit, touched)
        latest, held = rows, None
        if older:
            key = list(self._table.key)
            held = commit.take_out(older)
            keys = rows.select(*key)
            coming = F.broadcast(keys) if count <= SMALL else keys
            others = by_key(held, coming, key, "left_anti")
            latest = rows.unionByName(others)
            count += sum(map(rows_in, older))
        written = delta_commit.NOTHING
        if touched:
            folder = self._table.window_from
            written = commit.write(sized(latest, count, folder=folder, folders=len(touched)))
        return _Put(commit, written, self._changed_range(rows, held, touched))

    def _changed_range(
        self, rows: DataFrame, held: DataFrame | None, touched: Mapping[int, Reach]
    ) -> Reach | None:
        """Return the event-time range of the change, if another table follows the changes of this one.

        The rows before need not be read where the key contains the event time and a row has no validity.
        """
        table = self._table
        if not self._is_compared:
            return None
        if not touched or (table.valid_until is None and table.event_at in table.key):
            return hull([reach for reach in touched.values() if None not in reach]) or NO_TIME
        return reach_of(rows, table) if held is None else reach_of_change(rows, held, table)


class _Put(NamedTuple):
    """Files that are not committed yet, and the event-time range that they change."""

    commit: delta_commit.Commit
    written: delta_commit.Written
    reach: Reach | None


def _closed(entry: Entry, written: int, meter: Meter) -> Entry | None:
    """Complete an entry; None for a batch that read no row, wrote none and lost none."""
    if not entry.read and not written and not entry.dropped_above:
        return None
    return entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
