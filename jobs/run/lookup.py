"""What stands beside a table's rows from a static side, and putting it right when a later word about their time comes.

Each entry says at which version of the static side its rows were looked up. What changed there since is looked up again
for the rows of that time alone, and the rows that differ are exchanged in a commit that streams pass over.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import LookUp, Table
from jobs.run import delta
from jobs.run.churn import NO_TIME, Reach, changed_span
from jobs.run.lake import Lake
from jobs.run.lease import turn
from jobs.run.ledger import LOOKED_AGAIN, Entry, between, is_table, latest_version
from jobs.run.meter import Meter, code_version
from jobs.run.rows import OPEN
from jobs.run.same_key import by_key
from jobs.run.shelf import EPOCH, MICROSECOND
from jobs.run.stock import Stock
from jobs.run.swap import TRIES, Exchange, came_and_gone, changes, swap
from jobs.run.tail import Tail


@contextmanager
def beside(
    spark: SparkSession, table: Table, lake: Lake, batch: DataFrame, stock: Stock | None
) -> Iterator[tuple[DataFrame, dict[str, int]]]:
    """Add what is looked up to the rows of a batch, which are kept, because their time is asked first.

    That costs a job, and saves reading what ended before that time, of which there is ever more.
    """
    if table.looks_up is None:
        yield batch, {}
        return
    kept = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        at = F.unix_micros(str(table.event_at))
        first, last = kept.agg(F.min(at), F.max(at)).collect()[0]
        reach = NO_TIME if first is None else (first, last)
        yield adorned(spark, table, lake, kept, stock, reach)
    finally:
        kept.unpersist()


def adorned(  # noqa: PLR0913, PLR0917  # which rows of what, and where to look
    spark: SparkSession,
    table: Table,
    lake: Lake,
    rows: DataFrame,
    stock: Stock | None = None,
    reach: Reach = (-OPEN, OPEN),
) -> tuple[DataFrame, dict[str, int]]:
    """Add what is looked up to a table's rows, which lie within a reach; return the versions at which it was."""
    wanted = table.looks_up
    if wanted is None:
        return rows, {}
    source = wanted.source
    if not lake.exists(source):
        return unknown(table, rows), {source.id: -1}
    version = latest_version(lake.table(source))
    intervals = (stock or Stock.of(spark, source, lake)).rows(version, *reach)
    return _found(table, wanted, rows, intervals), {source.id: version}


def unknown(table: Table, rows: DataFrame) -> DataFrame:
    """Add the columns of what is looked up, without knowing anything."""
    names = table.looks_up.columns if table.looks_up else ()
    return rows.withColumns({name: F.lit(None).cast("string") for name in names})


@dataclass(slots=True)
class Again:
    """Looks up again what has changed, for the life of a run."""

    spark: SparkSession
    table: Table
    lake: Lake
    _tail: Tail = field(init=False)
    _own: Stock = field(init=False)
    _static: dict[Table, Stock] = field(init=False)

    def __post_init__(self) -> None:
        """Follow the table's own ledger, whoever writes to it."""
        self._tail = Tail(self.lake.table(self.table))
        self._own = Stock.of(self.spark, self.table, self.lake)
        self._static = {
            source: Stock.of(self.spark, source, self.lake) for source in self.table.needs
        }

    def look(self) -> Entry | None:
        """Put right what the static side has changed since; None when there is nothing to say.

        What a backfill commits from the first question to the commit would be undone, so then it is asked again; only
        the last time in one turn, for which all others wait.
        """
        wanted, path = self.table.looks_up, self.lake.table(self.table)
        if wanted is None or not self.lake.exists(wanted.source) or not is_table(path):
            return None
        static = self.lake.table(wanted.source)
        for nth in range(TRIES):
            with turn(self.spark, path) if nth == TRIES - 1 else nullcontext():
                seen = latest_version(path)
                before, now = self._right_until(), latest_version(static)
                if before == now:
                    return None
                entry = self._put_right(wanted, before, now, seen)
                if entry is not None:
                    return entry
        return None

    def _right_until(self) -> int:
        self._tail.follow()
        return self._tail.right_until

    def _span(self, source: Table, before: int, now: int) -> Reach | None:
        """Return the time of which the static side says something else, all of it where that cannot be told."""
        path = self.lake.table(source)
        is_new = before < 0 or before > now  # never looked up, or the static side was made anew
        if is_new or any(entry.replaced for entry in between(path, before + 1, now)):
            return (-OPEN, OPEN)
        return changed_span(self.spark, source, path, before, now)

    def _put_right(self, wanted: LookUp, before: int, now: int, seen: int) -> Entry | None:
        """Look up again from a version of the table; None when others have committed meanwhile."""
        meter = Meter(self.spark)
        path, key = self.lake.table(self.table), list(self.table.key)
        source = wanted.source
        span = self._span(source, before, now)
        reach = span or NO_TIME
        rows = self._near(self._own.rows(seen, *reach), span)
        intervals = self._static[source].rows(now, *reach)
        plain = rows.drop(*wanted.columns)
        new = _found(self.table, wanted, plain, intervals).select(*rows.columns)
        changed = changes(new, rows).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            came, gone = came_and_gone(changed)
            entry = Entry(
                table=self.table.id,
                mode=LOOKED_AGAIN,
                stream=LOOKED_AGAIN,
                batch=0,
                source=source.id,
                since=_text(span[0]) if span else "",
                until=_text(span[1]) if span else "",
                came=came,
                gone=gone,
                looked={source.id: now},
                code=code_version(self.table),
            ).closed(written=came - gone, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
            if not came and not gone:
                with turn(self.spark, path):
                    if latest_version(path) != seen:
                        return None
                    delta.Commit(self.spark, path).commit(entry.encoded())
                    return entry
            keys = changed.select(*key).distinct()
            exchange = Exchange(
                at=str(self.table.event_at),
                reach=reach,
                goes=lambda held: by_key(self._near(held, span), keys, key, "left_semi"),
                stays=lambda held: by_key(held, keys, key, "left_anti"),
                come=changed.where("_more > 0").drop("_more"),
                coming=came,
            )
            among = partial(self._own.files, first=reach[0], last=reach[1])
            is_done = swap(self.spark, path, exchange, entry.encoded(), among=among, seen=seen)
            return entry if is_done else None
        finally:
            changed.unpersist()

    def _near(self, rows: DataFrame, span: Reach | None) -> DataFrame:
        """Return the rows whose time it is, said so that files of other times need not be opened."""
        if span is None:
            return rows.limit(0)
        moment, (first, last) = F.col(str(self.table.event_at)), span
        near = rows if first <= -OPEN else rows.where(moment >= F.timestamp_micros(F.lit(first)))
        return near if last >= OPEN else near.where(moment <= F.timestamp_micros(F.lit(last)))


def _text(micros: int) -> str:
    return "open" if abs(micros) >= OPEN else (EPOCH + micros * MICROSECOND).isoformat()


def _found(table: Table, wanted: LookUp, rows: DataFrame, intervals: DataFrame) -> DataFrame:
    return wanted.find(rows, intervals, str(table.event_at), wanted.columns)
