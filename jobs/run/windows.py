"""Writing gold: windows once when they close, or their latest state whenever they change.

Why a change is no MERGE: MERGE reads its target twice and joins it whole. A table that speaks on change is
partitioned by the start of its windows, so the log names the files that a batch touches, and what those hold
beside the changed rows is copied within the same write.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run import delta
from jobs.run.ledger import Entry
from jobs.run.meter import Meter

Settle = Callable[[], Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """A gold table as its stream writes it."""

    table: Table
    path: Path

    def append(self, rows: DataFrame, settle: Settle, meter: Meter) -> Entry | None:
        """Add windows that are final."""
        commit = delta.Commit(rows.sparkSession, self.path)
        written = commit.write(rows.coalesce(1)).rows
        return _end(commit, settle(), written, meter)

    def change(self, rows: DataFrame, settle: Settle, meter: Meter) -> Entry | None:
        """Put windows in the place of what was known of them."""
        starts = str(self.table.window_from)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            touched = [row[0] for row in kept.select(F.unix_micros(starts)).distinct().collect()]
            commit = delta.Commit(rows.sparkSession, self.path)
            written = 0
            if touched:
                listed = ", ".join(f"TIMESTAMP '{_utc(micros)}'" for micros in sorted(touched))
                older = commit.take_out(f"{starts} IN ({listed})")
                latest = kept
                if older is not None:
                    changed = F.broadcast(kept.select(*self.table.key))
                    latest = kept.unionByName(
                        older.join(changed, list(self.table.key), "left_anti")
                    )
                written = commit.write(latest.coalesce(1)).rows
            return _end(commit, settle(), written, meter)
        finally:
            kept.unpersist()


def _end(commit: delta.Commit, entry: Entry, written: int, meter: Meter) -> Entry | None:
    if not entry.read and not written:
        return None
    final = entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
    commit.commit(final.encoded())
    return final


def _utc(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M:%S}.{rest:06d}"
