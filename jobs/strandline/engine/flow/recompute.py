"""Compute a table anew: as a whole, or whole windows where a source changed.

Recompute windows: where a source changed, the table's batch function runs again over whole windows.

Why not a stream: rows of these sources are replaced later (a connection gets another holder, a device's interval is
divided), and no streaming query can retract its rows. Here no row is retracted: the windows that a change touches are
computed again from all their rows and replaced, in one commit. Batch and stream agree because they are one function
over the same rows; there is no state to lose and no watermark to wait for.

Where rows of other windows are joined with those of one, the table declares how far apart they lie (``reach``).

A table that emits a window once it is over computes it then for the first time, out of all of its rows: a dimension that is
joined before rows are counted needs no state, and no row is read by batches in which no window ends. What is over follows from the rows that are read alone, by the law that streams have, so that batches and repairs agree.

The price is that whole windows are read again. It grows with the change and not with the table's age; a change that
affects all later time, such as the first interval of a device, touches all later windows.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.kind import shifted
from strandline.core.stateful import closed
from strandline.core.table import Appended, Computed, Judged, Recomputed, Table
from strandline.core.topic import counted_items
from strandline.core.verdict import good_rows
from strandline.engine.accounting.balance_sheet import rows_until
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.accounting.table_books import Books
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.batch_accounting import (
    Items,
    Watch,
    imported_until,
    of_batch,
    own_of_all,
)
from strandline.engine.flow.batch.batch_writer import only_selects
from strandline.engine.flow.batch.event_joins import (
    adorned,
    all_before_first,
    joining,
    last_first_moment,
    noted,
    rows_before_first,
)
from strandline.engine.flow.batch.write_rows import Fork, counting_column
from strandline.engine.flow.plan import make, shaped
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.create_table import Change, add_columns, altered
from strandline.engine.lake.commit.delta_commit import OPEN, rows_at, write
from strandline.engine.lake.commit.file_index import (
    EPOCH,
    MICROSECOND,
    MILLISECOND,
    FileIndex,
    WindowIndex,
)
from strandline.engine.lake.commit.replace_rows import changed_span
from strandline.engine.lake.completeness import computable_from
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, between, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import declared_schema
from strandline.engine.lake.spark_checkpoint import close_ordered, closed_ms
from strandline.engine.runtime.jvm import Meter

# Compute a table once over all of its sources, by the same functions as its stream.
#
# The commit removes every file and adds the new ones, so a reader sees the old rows or the new ones, never a mix.


BATCH_STREAM = "batch"
"""The ``stream`` of an entry that a batch wrote, where a stream has its checkpoint's id."""


def refuse_streamed(table: Table, lake: Lake, newest: Entry | None) -> None:
    """Refuse to compute a table as a whole that a stream owns; one without state has no owner.

    Raises:
        DefinitionError: A stream wrote its newest entry.
    """
    if newest is not None and newest.stream != BATCH_STREAM and not isinstance(table, Recomputed):
        raise written_by_stream(table, lake)


def written_by_stream(table: Table, lake: Lake) -> DefinitionError:
    """Return the error for a batch over a table that a stream owns."""
    return DefinitionError(
        f"{table.id} is written by a stream; a batch over everything would replace its rows under it",
        hint=f"use another lake, or remove {lake.table(table)} and {lake.checkpoint(table)} first.",
        table=table.id,
    )


def compute(
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    guard: Guard | None = None,
    mode: str = BATCH_STREAM,
) -> Entry:
    """Replace the table's rows by those computed from its sources as of now.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: The lake.
        guard: Checks the batch of a judging table before its commit; without it every batch passes.
        mode: The mode in the ledger entry.

    Raises:
        DefinitionError: A stream owns the table.
        GateShutError: The batch failed its checks, or the gate of a source is shut.
    """
    path = lake.table(table)
    newest = last_entry(path)
    refuse_streamed(table, lake, newest[1] if newest else None)
    refuse_behind(table, lake)
    meter = Meter(spark)
    versions = {source: latest_version(lake.table(source)) for source in table.upstream}
    rows = [rows_at(spark, lake.table(source), version) for source, version in versions.items()]
    ordered = close_ordered(lake.checkpoint(table))
    with joining(table, lake), closed(ordered.until_ms if ordered else 0):
        result, looked = adorned(spark, table, lake, shaped(rows, table))
    if lake.exists(table):  # of which all rows are replaced
        columns = good_rows(result, table) if isinstance(table, Judged) else result
        add_columns(spark, path, columns.schema)
    make(spark, table, lake, result)
    number = newest[1].batch + 1 if newest else 0
    read = sum(rows_until(lake.table(source), at) for source, at in versions.items())
    begun = new_entry.tables_read(
        table, mode, BATCH_STREAM, number, versions=_from_first(versions.items()), rows=read
    )
    entry = noted(replace(begun, replaced=True, looked=looked), table, lake)
    if ordered is not None or (isinstance(table, Recomputed) and table.waits):
        natural = bound_of(table, rows)
        until = ordered.until_ms * 1000 if ordered else -OPEN
        if ordered is not None and until > natural:
            entry = replace(entry, closed_by=ordered.by)
        if isinstance(table, Recomputed) and table.waits:
            entry = _with_bound(entry, table, max(natural, until))
        result = _over_only(table, result, entry.over_until)
    if isinstance(table, Judged):
        at = {source.id: version for source, version in versions.items()}
        entry = replace(entry, imported=imported_until(table, lake, at))
        quarantine = lake.quarantine(table)
        fork = Fork(
            table=table,
            path=path,
            quarantine=quarantine,
            guard=guard,
            replaces=True,
            before=partial(rows_before_first, table, lake),
        )
        (events,), ((source, version),) = rows, versions.items()
        watch = Watch(
            table=table,
            read=lambda: own_of_all(spark, table, lake.table(source), version, events),
            passed=partial(of_batch, table),
            records=lambda: events,
        )
        with joining(table, lake):  # a function that loses records is asked again
            return fork.write(result, entry, meter, watch) or entry
    entry = replace(entry, before_static=all_before_first(table, lake, rows))
    if isinstance(table, Appended) and table.rows:
        entry = Items(*counted_items(rows[0], table.rows)).added_to(entry)
    commit = delta_commit.Commit(spark, path)
    commit.take_out_all()
    commit.reshape(result.schema)
    with _refusing_long(table):
        files = commit.write(result)
    good, column = entry.read - sum(entry.skipped.values()), counting_column(table)
    settled = entry.settled(good=good, held={}, dropped=0).taken_in(
        written=files.rows,
        counted=delta_commit.summed(path, files, column) if column else 0,
        selects=only_selects(spark, table, lake),
    )
    final = settled.closed(meter, written=files.rows)
    commit.commit(final.encoded())
    return final


def bound_of(table: Computed, rows: Iterable[DataFrame]) -> int:
    """Return the watermark that a stream would have after these rows of each source, in microseconds."""
    newest = [
        read.agg(F.max(F.unix_micros(str(source.event_at)))).collect()[0][0]
        for source, read in zip(table.upstream, rows, strict=True)
        if not source.valid_until
    ]
    return _bound_after(table, newest)


def _bound_after(table: Computed, newest: Iterable[int | None]) -> int:
    """Return the same from the newest event time of each source that its windows wait for."""
    delays = [
        source.lateness.delay // MICROSECOND for source in table.upstream if not source.valid_until
    ]
    bounds = [
        -OPEN if last is None else last // MILLISECOND * MILLISECOND - delay
        for last, delay in zip(newest, delays, strict=True)
    ]
    return min(bounds, default=-OPEN)


def _with_bound(entry: Entry, table: Recomputed, bound: int) -> Entry:
    """Note the watermark, and the moment up to which windows are over by it: the last at which windows end.

    Windows begin at multiples of their slide since 1970, as Spark's do; where they begin some minutes beside that, they wait for
    the next such moment, in every mode.
    """
    if bound <= -OPEN:
        return replace(entry, over_until=bound)
    at = shifted(EPOCH, bound * MICROSECOND)
    met = shifted(at, -table.reaches)
    if days := table.local_day:
        over = days.begins(days.date_of(met))
    else:
        over = met - (met - EPOCH - table.window_length) % table.step
    return replace(entry, over_until=(over - EPOCH) // MICROSECOND, watermark=at.isoformat())


NO_END = "ends later than it declares"
"""What Spark raises for a window without an end, or with a later one."""


def _over_only(table: Computed, rows: DataFrame, over: int | None) -> DataFrame:
    """Return the rows of windows that are over; all of a table that does not wait for it.

    A window that is longer than declared would be looked for where it is not, and one without an end would never be over.
    """
    if over is None or not isinstance(table, Recomputed):
        return rows
    ends, begins = F.unix_micros(str(table.closes_at)), F.unix_micros(table.window_from)
    is_fit = ends - begins <= table.window_length // MICROSECOND
    return rows.where(F.when(is_fit, ends <= over).otherwise(F.raise_error(F.lit(NO_END))))


@contextmanager
def _refusing_long(table: Table) -> Iterator[None]:
    """Say what a window is that has no end, or a later one than declared.

    Raises:
        DefinitionError: Spark has met one.
    """
    try:
        yield
    except Exception as error:
        if NO_END not in str(error):
            raise
        raise DefinitionError(
            f"{table.id} has a window without an end, or one that is longer than its declared window",
            hint="let `window` be the length of the longest, and `closes_at` the end of a row's window; where rows outside of a "
            "window are joined to it, declare reach=….",
            table=table.id,
        ) from error


def _from_first(versions: Iterable[tuple[Table, int]]) -> dict[str, tuple[int, int]]:
    """Return what is read of tables by a computation that reads all of their commits up to some versions."""
    return {source.id: (0, version) for source, version in versions}


STREAM = "afresh"
"""The ``stream`` of an entry of recomputed windows, where a stream has its checkpoint's id."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of microseconds since 1970, both ends included."""

    lowest: int
    highest: int

    def __or__(self, other: "Span") -> "Span":
        """Return the shortest span that contains both."""
        return Span(min(self.lowest, other.lowest), max(self.highest, other.highest))


class Afresh:
    """A table that follows sources whose rows can be replaced."""

    def __init__(self, spark: SparkSession, table: Recomputed, lake: Lake, mode: str) -> None:
        """Prepare. One object serves a whole run, because it caches the files of each window."""
        self._spark = spark
        self._table = table
        self._lake = lake
        self._mode = mode
        self._shelf = WindowIndex(table.window_from)
        self._stocks = {source: FileIndex.of(spark, source, lake) for source in table.reads}
        self._length = table.window_length // MICROSECOND
        self._reach = table.reaches // MICROSECOND

    def catch_up(self) -> Entry | None:
        """Recompute the windows that changed since the last run; None if the sources have no new commits.

        Raises:
            GateShutError: The gate of a source is shut.
        """
        refuse_behind(self._table, self._lake)
        meter = Meter(self._spark)
        sources = self._table.reads
        last = last_entry(self._lake.table(self._table))
        newest = last[1] if last else None
        before = {s: newest.versions[s.id][1] if newest else -1 for s in sources}
        now = {s: latest_version(self._lake.table(s)) for s in sources}
        unread = [
            entry
            for source in sources
            for entry in between(self._lake.table(source), before[source] + 1, now[source])
        ]
        if not unread and not self._is_to_close(newest):
            return None
        if newest is None or any(entry.replaced for entry in unread):
            return compute(self._spark, self._table, self._lake, mode=self._mode)
        if (newest.over_until is not None) != self._table.waits:  # by another declaration
            return self.anew()
        read = sum(entry.written + entry.removed for entry in unread)
        entry = self._entry(newest.batch + 1, now, read)
        rows = self._changed(before, now)
        if entry.over_until is None:
            starts = self._starts(rows)
        else:
            starts = self._over(rows, newest.over_until or 0, entry.over_until)
        return self._put(starts, now, entry, meter)

    def anew(self) -> Entry:
        """Recompute every window that lacks no row by retention, whatever has changed; older windows stay as they are.

        Raises:
            GateShutError: The gate of a source is shut.
        """
        if computable_from(self._table, self._lake) is None:
            return compute(self._spark, self._table, self._lake, mode=self._mode)
        refuse_behind(self._table, self._lake)
        meter = Meter(self._spark)
        newest = last_entry(self._lake.table(self._table))
        now = {s: latest_version(self._lake.table(s)) for s in self._table.reads}
        # What the books have not counted as read, as if each commit had been followed.
        sums = {source.id: sums_of(self._lake.table(source), at) for source, at in now.items()}
        read = Books(self._table, self._lake).follow().unread(sums)
        entry = self._entry(newest[1].batch + 1 if newest else 0, now, read)
        return self._put(Span(self._whole_from(), OPEN), now, entry, meter)

    def _entry(self, batch: int, now: Mapping[Computed, int], read: int) -> Entry:
        begun = new_entry.tables_read(
            self._table, self._mode, STREAM, batch, versions=_from_first(now.items()), rows=read
        ).settled(good=read, held={}, dropped=0)
        if self._table.waits:
            ordered = close_ordered(self._lake.checkpoint(self._table))
            until = ordered.until_ms * 1000 if ordered else -OPEN
            natural = self._bound(now)
            begun = _with_bound(begun, self._table, max(natural, until))
            if ordered is not None and until > natural:
                begun = replace(begun, closed_by=ordered.by)
        return noted(begun, self._table, self._lake)

    def _bound(self, now: Mapping[Computed, int]) -> int:
        """Return the watermark of versions of the sources, from the statistics of their files."""
        newest = [self._stocks[source].newest(now[source]) for source in self._table.timed]
        return _bound_after(self._table, newest)

    def _is_to_close(self, newest: Entry | None) -> bool:
        """Return whether a close was ordered since a table was computed last, so that windows are over by now."""
        until = closed_ms(self._lake.checkpoint(self._table)) * 1000
        if not self._table.waits or not until or newest is None or newest.over_until is None:
            return False
        over = _with_bound(newest, self._table, until).over_until
        return over is not None and over > newest.over_until

    def _over(self, rows: Span | None, before: int, now: int) -> Span | None:
        """Return the starts of the windows that ended between two moments, and of those ended before that changed rows touch.

        Where rows of a source are gone, fewer windows may be over than were: these go.
        """
        spans = []
        if before != now:
            earlier, later = sorted((before, now))
            # A day begins where the one before it ends; of other windows it is not known at which minute they begin.
            back = 0 if self._table.local_day else self._length - 1
            spans = [Span(max(earlier - back, self._whole_from()), later - 1)]
        # A row at the end of a window or later is in no window that is over, unless it is joined with rows of one.
        if rows is not None and rows.lowest - self._reach < now and (touched := self._starts(rows)):
            spans.append(Span(touched.lowest, min(touched.highest, now - 1)))
        known = [span for span in spans if span.lowest <= span.highest]
        return reduce(or_, known) if known else None

    def _changed(self, before: Mapping[Computed, int], now: Mapping[Computed, int]) -> Span | None:
        """Return the range of time of the rows that changed."""
        spans = [self._span(source, before[source], now[source]) for source in now]
        known = [span for span in spans if span is not None]
        return reduce(or_, known) if known else None

    def _starts(self, rows: Span | None) -> Span | None:
        """Return the range of starts of the windows that a changed row can touch."""
        if rows is None:
            return None
        lowest = max(rows.lowest - self._length - self._reach + 1, self._whole_from())
        highest = min(rows.highest + self._reach, OPEN)
        return Span(lowest, highest) if lowest <= highest else None

    def _whole_from(self) -> int:
        """Return the first start of a window that lacks no row by retention; older windows stay as they are."""
        first = computable_from(self._table, self._lake)
        return -OPEN if first is None else (first - EPOCH) // MICROSECOND

    def _span(self, source: Computed, before: int, now: int) -> Span | None:
        changed = changed_span(self._spark, source, self._lake.table(source), before, now)
        return Span(*changed) if changed else None

    def _put(
        self, starts: Span | None, now: Mapping[Computed, int], entry: Entry, meter: Meter
    ) -> Entry:
        """Replace the table's windows that start within a span."""
        commit = delta_commit.Commit(self._spark, self._lake.table(self._table))
        written, touched = delta_commit.NOTHING, []
        if starts is not None:
            touched = self._shelf.between(commit, starts.lowest, starts.highest)
            if touched:
                commit.take_out(self._shelf.holding(commit, touched))
            over = OPEN if entry.over_until is None else entry.over_until
            near = [self._near(source, starts, at, over) for source, at in now.items()]
            with joining(self._table, self._lake):
                rows = shaped(near, self._table)
            self._refuse_lack(rows)
            begins = F.unix_micros(self._table.window_from)
            inside = begins.between(starts.lowest, starts.highest)
            found = _over_only(self._table, rows, entry.over_until).where(inside)
            with _refusing_long(self._table):
                written = write(commit, found, folder=self._table.window_from)
            entry = replace(entry, before_static=self._before_first(starts, now))
        final = entry.closed(meter, written=written.rows)
        version = commit.commit(final.encoded())
        self._shelf.replaced(version, touched, written)
        return final

    def _refuse_lack(self, rows: DataFrame) -> None:
        found = altered(declared_schema(self._lake.table(self._table)), rows.schema)
        lacking = [each.name for each in found if each.change is Change.NEW]
        if lacking:
            raise DefinitionError(
                f"{self._table.id} lacks {' and '.join(lacking)}, which its function returns now",
                hint=f"`strandline migrate {self._table.id} --go` recomputes all of its windows.",
                table=self._table.id,
            )

    def _before_first(self, starts: Span, now: Mapping[Computed, int]) -> dict[str, int]:
        """Return how many more rows of the sources lie before the first version of a static table than were counted.

        They are counted among the rows of the versions that are read: files that came since the last run may be gone again, and
        a row that only replaces one was counted.
        """
        first = last_first_moment(self._table, self._lake)
        until = -OPEN if first is None else (first - EPOCH) // MICROSECOND
        if starts.lowest >= until:
            return {}
        rows = [self._stocks[source].rows(at, last=until) for source, at in now.items()]
        found = all_before_first(self._table, self._lake, rows)
        counted = sums_of(self._lake.table(self._table)).before_static
        more = {each: found.get(each, 0) - counted.get(each, 0) for each in {*found, *counted}}
        return {each: count for each, count in more.items() if count}

    def _near(self, source: Computed, starts: Span, version: int, over: int) -> DataFrame:
        """Return the rows of a source in windows that start within a span and are over, and those that they reach."""
        first = max(starts.lowest - self._reach, -OPEN)
        last = min(min(starts.highest + self._length, over) + self._reach, OPEN)
        rows = self._stocks[source].rows(version, first, last)
        begins = F.col(source.event_at)
        ends = F.col(source.valid_until) if source.valid_until else begins
        reaches = ends.isNull() | (ends >= F.timestamp_micros(F.lit(first)))
        if starts.highest >= OPEN:
            return rows.where(reaches)
        return rows.where(reaches & (begins < F.timestamp_micros(F.lit(last))))
