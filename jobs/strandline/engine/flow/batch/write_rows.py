"""Writing silver and gold, each row exactly once.

Writing silver: good rows to the table, the others to its quarantine, each exactly once.

The quarantine is written first and only when there is something for it, the table with the ledger entry last:
a crash between the two leaves a quarantine that is one batch ahead, and the batch, when it comes again, skips that half.
The table's guard (jobs/strandline/engine/accounting/batch_check.py) is asked before both: a batch that fails is written to neither.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import Emit
from strandline.core.parse import DRIFT
from strandline.core.table import Derived, Judged, Upserted, Windowed
from strandline.core.topic import ORDER, PLACE
from strandline.core.verdict import (
    DUPLICATE_OF,
    bad_rows,
    good_records,
    good_rows,
    may_have_copies_in_the_table,
)
from strandline.engine.accounting.batch_check import Guard, counted
from strandline.engine.flow.batch.batch_accounting import Watch, drift_of
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.delta_commit import (
    SMALL,
    by_key,
    cut,
    rows_in,
    sized,
    together,
    write,
)
from strandline.engine.lake.commit.file_index import WindowIndex
from strandline.engine.lake.commit.replace_rows import (
    NO_TIME,
    Reach,
    hull,
    reach_of,
    reach_of_change,
)
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.ledger import (
    GATE,
    LEDGER,
    Entry,
    between,
    last_entry,
    latest_version,
)
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import Meter

# Writing gold: windows once when they close, or their latest state whenever they change.
#
# Why a change is no MERGE: MERGE reads its target twice and joins it whole. A table that emits updates is
# partitioned by the start of its windows, so it is known which files a batch touches (jobs/strandline/engine/lake/commit/file_index.py), and
# the unchanged rows in those files are copied within the same write.
#
# Where another table follows the changes of this one, the entry has the event-time range of the change: the batch has
# the rows before and after at hand, and each follower would have to read every rewritten file.


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
            is_of_time = self._table.emits is not Emit.ON_CHANGE
            touched, count = self._touched(kept if is_of_time else together(kept, entry.read))
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
    """Complete an entry; None for a batch that read no row, wrote none, lost none and was not ordered."""
    if not entry.read and not written and not entry.dropped_above and not entry.closed_by:
        return None
    return entry.closed(meter, written=written)


# Copies of history: rows of a judged table that believes events which are older than any state.
#
# State has forgotten an event that happened longer ago than a table admits, so a row of it is compared with the rows of its
# batch, and with those that the table has of that time: it is a copy where one of its key and event time comes before it in
# bronze's order. A row that is in time follows one of history only where it arrived shortly before it, by the law of disorder,
# so those at the border are compared as well. A batch over everything and a stream keep the same rows, and what leaves here is counted as any other copy is.


def without_copies(rows: DataFrame, table: Judged, path: Place | None) -> DataFrame:
    """Return judged rows without copies of history; all of them where the table believes or looks for none, or none came.

    Args:
        rows: Judged and deduplicated as far as state knows; persisted.
        table: The table.
        path: Its rows so far; None where they are replaced.
    """
    if not table.believes_history or table.keeps_copies:
        return rows
    at = F.col(table.event_at)
    micros = F.unix_micros(at)
    old = rows.where(may_have_copies_in_the_table(table))
    count, first, last = old.agg(F.count(F.lit(1)), F.min(micros), F.max(micros)).collect()[0]
    if not count:
        return rows
    same = _same(table)
    mine = old.select(*PLACE, F.struct(*ORDER).alias("_order"), *_named(table, "_mine"))
    beside = rows.where(F.col("_reasons").isNull()).select(
        F.struct(*ORDER).alias("_before"), *_named(table, "_other")
    )
    copies = mine.join(beside, same & (F.col("_before") < F.col("_order")), "left_semi")
    if path is not None:
        known = rows.sparkSession.read.format("delta").load(str(path))
        # The column itself, so that Delta passes over files of another time.
        ends = (F.timestamp_micros(F.lit(each)) for each in (first, last))
        known = known.where(at.between(*ends)).select(*_named(table, "_other"))
        copies = copies.unionByName(mine.join(known, same, "left_semi"))
    return rows.join(F.broadcast(copies.select(*PLACE).distinct()), [*PLACE], "left_anti")


def _names(table: Judged) -> tuple[str, ...]:
    return (*table.key, table.event_at)


def _named(table: Judged, mark: str) -> list[Column]:
    return [F.col(name).alias(f"{mark}_{number}") for number, name in enumerate(_names(table))]


def _same(table: Judged) -> Column:
    same = F.lit(True)
    for number in range(len(_names(table))):
        same &= F.col(f"_mine_{number}").eqNullSafe(F.col(f"_other_{number}"))
    return same


FOUND = ("broke", "failed", "opened", "rules", "contract", "newest")
"""What a guard adds to an entry."""


WITHOUT_USE = (*DUPLICATE_OF, "_problem", "_batch", "_ingested_at", "_newest_before")
"""The columns of judged rows that are in no table, once copies are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The two tables that one query fills."""

    table: Judged
    path: Place
    quarantine: Place
    guard: Guard | None
    replaces: bool = False
    before: Callable[[DataFrame], Mapping[str, int]] = lambda _: {}
    """Counts believed rows from before the first version of a static table."""

    def write(
        self,
        rows: DataFrame,
        entry: Entry,
        meter: Meter,
        watch: Watch,
        *,
        held_already: bool = False,
    ) -> Entry | None:
        """Write the good rows to the table and the others to its quarantine.

        Args:
            rows: Judged and deduplicated; read once.
            entry: The entry of the batch, without the numbers of good rows and of held ones.
            meter: Measures the batch.
            watch: Finds what the table's function lost and made of the batch.
            held_already: Whether the quarantine was written before a crash.

        Raises:
            GateShutError: The batch fails its checks; nothing was written.
            DefinitionError: The quarantine was written before a crash, by other rules.
            TransientError: A repair has brought rows meanwhile, of which one may be a copy of one of the batch.
        """
        compares = self.table.believes_history and not self.table.keeps_copies
        # What state compared and how a row arrived is not asked any more, and each column that is kept costs a copy of it.
        kept = (rows if compares else rows.drop(*WITHOUT_USE)).persist(StorageLevel.MEMORY_AND_DISK)
        cached = kept
        if self.replaces:  # a stream gives rows without the plan that computes them
            kept = cut(kept)
        may_compare = compares and not self.replaces
        version = latest_version(self.path) if may_compare else None
        try:
            believed = without_copies(kept, self.table, None if self.replaces else self.path)
            compared_at = None if believed is kept else version
            judged = counted(together(believed, entry.read + entry.others), self.table)
            good, held = judged.good, judged.held
            with meter.part(LEDGER):
                entry, through = watch.through(kept, entry)
            entry = replace(
                entry,
                before_static=self.before(good_records(believed)),
                items=judged.items,
                held_items=judged.held_items,
            )
            entry = entry.settled(
                good=good,
                held=held,
                dropped=entry.dropped_by_watermark,
                through=through,
            )
            if not entry.read and not entry.others and not self.replaces:
                return None
            if self.table.sees_drift and DRIFT in believed.columns:
                entry = drift_of(believed, entry, judged.drifted)
            if held_already:
                entry = self._as_begun(entry, held, judged.held_items)
            elif self.guard:
                with meter.part(GATE):
                    entry = self.guard.admit(entry, judged, believed)
            if (held or self.replaces) and not held_already:
                bad = bad_rows(believed, self.table)
                self._put(self.quarantine, bad, held.total(), entry, meter, goes_on=True)
            count = good if judged.items is None else judged.items - judged.held_items
            rows = good_rows(believed, self.table)
            final = self._put(self.path, rows, count, entry, meter, compared_at)
            if self.guard:
                self.guard.passed(final.stream, final.batch)
            return final
        finally:
            cached.unpersist()

    def _as_begun(self, entry: Entry, held: Counter[str], items: int) -> Entry:
        """Continue a batch that passed its checks before a crash; they are not repeated."""
        newest = last_entry(self.quarantine)
        begun = newest[1] if newest else entry
        if (Counter(begun.quarantined), begun.held_items) != (held, items):
            raise DefinitionError(
                f"batch {entry.batch} of {self.table.id} was interrupted when its quarantine was written, "
                "and today's rules hold back other rows of it",
                hint="run it once with the code that began it; then change the rules, "
                f"and `strandline quarantine replay {self.table.id}`.",
                table=self.table.id,
                batch=entry.batch,
            )
        return replace(entry, **{name: getattr(begun, name) for name in FOUND})

    def _put(  # noqa: PLR0913, PLR0917  # what is written, where, and what it was compared with
        self,
        path: Place,
        rows: DataFrame,
        count: int,
        entry: Entry,
        meter: Meter,
        compared_at: int | None = None,
        *,
        goes_on: bool = False,
    ) -> Entry:
        commit = delta_commit.Commit(rows.sparkSession, path)
        if self.replaces:
            commit.take_out_all()
            commit.reshape(rows.schema)
        written = commit.write(sized(rows, count)).rows if count else 0
        final = entry.closed(meter, written=written, goes_on=goes_on)
        if compared_at is None:
            commit.commit(final.encoded())
            return final
        with turn(rows.sparkSession, path):
            if self._is_repaired_since(compared_at):
                commit.abandon()
                raise TransientError(
                    f"a repair has brought rows to {self.table.id} while a batch was compared with it",
                    hint="start it again: the batch is compared anew. A stream does so by itself.",
                    table=self.table.id,
                )
            commit.commit(final.encoded())
        return final

    def _is_repaired_since(self, version: int) -> bool:
        """Return whether a repair has brought rows since a batch was compared with the table: one may be its copy."""
        later = between(self.path, version + 1, latest_version(self.path))
        return any(entry.is_backfill and entry.came for entry in later)
