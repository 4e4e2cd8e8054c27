"""Windows computed afresh: where a source changed, the table's own batch function runs again over whole windows.

Why not a stream: rows of these sources are replaced by later words (a connection gets another holder, a device's
interval is divided), which no streaming query can take back. Here nothing needs to be taken back: what a change
touches is computed again from all rows of those windows and put in their place, in one commit. Batch and stream
agree because they are one function over the same rows; there is no state to lose and no watermark to wait for.

The price is that whole windows are read again. It grows with what changed and not with the table's age; a change
that says something about all later time, such as the first word about a device, touches all later windows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run import delta
from jobs.run.batches import compute
from jobs.run.churn import changed_span
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, between, last_entry, latest_version
from jobs.run.meter import Meter, code_version
from jobs.run.rows import OPEN
from jobs.run.shelf import Shelf
from jobs.run.sized import write
from jobs.run.stock import Stock
from jobs.run.streams import shaped

STREAM = "afresh"
"""What stands in an entry in the place of a checkpoint's identity."""


@dataclass(frozen=True, slots=True)
class Span:
    """Microseconds since 1970, both included."""

    lowest: int
    highest: int

    def __or__(self, other: "Span") -> "Span":
        """Return the shortest span that holds both."""
        return Span(min(self.lowest, other.lowest), max(self.highest, other.highest))


class Afresh:
    """A table that follows sources whose rows may be replaced."""

    def __init__(self, spark: SparkSession, table: Table, lake: Lake, mode: str) -> None:
        """Prepare; one for the life of a run, because it remembers where each window lies."""
        self._spark = spark
        self._table = table
        self._lake = lake
        self._mode = mode
        self._shelf = Shelf(str(table.window_from))
        self._stocks = {source: Stock.of(spark, source, lake) for source in table.upstream}
        self._length = pd.Timedelta(str(table.window)) // pd.Timedelta(microseconds=1)

    def catch_up(self) -> Entry | None:
        """Compute again what the sources have changed since the last time; nothing when they have not."""
        meter = Meter(self._spark)
        sources = self._table.upstream
        found = last_entry(self._lake.table(self._table))
        newest = found[1] if found else None
        before = {s: newest.versions[s.id][1] if newest else -1 for s in sources}
        now = {s: latest_version(self._lake.table(s)) for s in sources}
        news = [
            entry
            for source in sources
            for entry in between(self._lake.table(source), before[source] + 1, now[source])
        ]
        if not news:
            return None
        if newest is None or any(entry.replaced for entry in news):
            return compute(self._spark, self._table, self._lake, mode=self._mode)
        read = sum(entry.written for entry in news)
        entry = Entry(
            table=self._table.id,
            mode=self._mode,
            stream=STREAM,
            batch=newest.batch + 1,
            source=", ".join(source.id for source in sources),
            versions={source.id: (0, version) for source, version in now.items()},
            read=read,
            code=code_version(self._table),
        ).settled(good=read, held={}, dropped=0)
        return self._put(self._touched(before, now), now, entry, meter)

    def _touched(self, before: Mapping[Table, int], now: Mapping[Table, int]) -> Span | None:
        """Return between which moments windows must start that a changed row can have touched."""
        spans = [self._span(source, before[source], now[source]) for source in now]
        known = [span for span in spans if span is not None]
        if not known:
            return None
        rows = reduce(or_, known)
        return Span(rows.lowest - self._length + 1, rows.highest)

    def _span(self, source: Table, before: int, now: int) -> Span | None:
        found = changed_span(self._spark, source, self._lake.table(source), before, now)
        return Span(*found) if found else None

    def _put(
        self, starts: Span | None, now: Mapping[Table, int], entry: Entry, meter: Meter
    ) -> Entry:
        """Put windows in the place of those that the table holds in a span."""
        commit = delta.Commit(self._spark, self._lake.table(self._table))
        written, touched = delta.NOTHING, []
        if starts is not None:
            touched = self._shelf.between(commit, starts.lowest, starts.highest)
            if touched:
                commit.take_out(self._shelf.holding(commit, touched))
            rows = shaped(
                [self._near(source, starts, at) for source, at in now.items()], self._table
            )
            begins = F.unix_micros(str(self._table.window_from))
            inside = begins.between(starts.lowest, starts.highest)
            written = write(commit, rows.where(inside), folder=str(self._table.window_from))
        final = entry.closed(written=written.rows, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
        version = commit.commit(final.encoded())
        self._shelf.replaced(version, touched, written)
        return final

    def _near(self, source: Table, starts: Span, version: int) -> DataFrame:
        """Return the rows of a source that lie in windows which start within a span."""
        last = min(starts.highest + self._length, OPEN)
        rows = self._stocks[source].rows(version, starts.lowest, last)
        begins = F.col(str(source.event_at))
        ends = F.col(source.valid_until) if source.valid_until else begins
        reaches = ends.isNull() | (ends >= F.timestamp_micros(F.lit(starts.lowest)))
        if starts.highest >= OPEN:
            return rows.where(reaches)
        return rows.where(reaches & (begins < F.timestamp_micros(F.lit(last))))
