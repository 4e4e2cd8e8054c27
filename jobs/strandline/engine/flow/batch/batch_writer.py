"""Writing the micro-batches of a table's query: account, check, commit, each once for a batch.

Spark hands a batch over again after a crash. What was written is known from the newest ledger entry of the table, because
a table has one writer and the entry is in the commit of the rows.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.kind import Emit
from strandline.core.routes import schemas_from
from strandline.core.table import Appended, Derived, Judged, Streamed, Upserted, Windowed
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.flow.batch.batch_accounting import (
    Below,
    below_watermark,
    imported_until,
    inputs_of,
    items_of,
    opened,
    watch_of,
)
from strandline.engine.flow.batch.event_joins import (
    ALIAS,
    Pinned,
    before_first,
    beside,
    joining,
    rows_before_first,
)
from strandline.engine.flow.batch.governor import ReplanError, TriggerLimit
from strandline.engine.flow.batch.joined_streams import STATEFUL, each_of
from strandline.engine.flow.batch.write_rows import Fork, Windows, append
from strandline.engine.lake.commit.delta_commit import OPEN, rows_now
from strandline.engine.lake.commit.file_index import FileIndex
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.ledger import LEDGER, Entry, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.mend_checkpoint import broken_state
from strandline.engine.lake.open_table import lost_file
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Shelf
from strandline.engine.lake.spark_checkpoint import (
    close_ordered,
    keep_plan,
    keep_state,
    planned,
    stream_id,
)
from strandline.engine.runtime.jvm import Meter, classic, jvm
from strandline.engine.runtime.outage import first_line, transient
from strandline.engine.runtime.processes import PLANNED, reached

# Does a table's function only select rows? Then what it left out is known: what it read, less what it wrote.
#
# A filter and a projection make at most one row of one, so both numbers are counted and their difference is exact. A join,
# a list that is exploded and a union may do both, and in an aggregation rows wait for each other; of these no such number is
# claimed.


HARMLESS = frozenset({"Project", "Filter", "SubqueryAlias", "View"})
"""Operators that make at most one row of one, by Spark's names."""


def only_selects(spark: SparkSession, table: Derived, lake: Lake) -> bool:
    """Return whether a table's rows are rows of its one source, some left out."""
    if not isinstance(table, Appended) or table.closes_at or len(table.reads) > 1:
        return False
    (source,) = table.reads
    given = table.given([rows_now(spark, source, lake)])
    if (
        table.rows
    ):  # the rows of the items are counted; the function is asked about what it gets of them
        given = [spark.createDataFrame([], each.schema) for each in given]
    rows = table.transform(*given)
    return _selects(rows._jdf.queryExecution().analyzed())  # noqa: SLF001  # there is no public way


def _selects(plan: Any) -> bool:  # noqa: ANN401  # py4j's objects have no types
    below = [*each_of(plan.children())]
    if not below:
        return True
    if _adds_columns(plan):
        return _selects(below[0])
    return plan.nodeName() in HARMLESS and all(map(_selects, below))


def _adds_columns(plan: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether an operator joins a static table, of which a row meets one row at most."""
    if plan.nodeName() != "Join" or plan.joinType().toString() != "LeftOuter":
        return False
    node = plan.right()
    while not (is_named := node.nodeName() == "SubqueryAlias") and not node.children().isEmpty():
        node = node.children().apply(0)
    return bool(is_named) and str(node.identifier().name()).startswith(ALIAS)


DROPPED = "numRowsDroppedByWatermark"
SESSIONS, RESTORES = "SessionWindowStateStoreSave", "SessionWindowStateStoreRestore"
NONE: Mapping[str, int] = {}


class DroppedRows:
    """What the operators of one table's query drop; a query without an operator above another is looked at once.

    Count what the operators of a stream drop below the watermark, before a batch is committed.

    What the first operator drops are rows of a source; they are counted from the source itself (batch_accounting.py), by windows
    of the declared length. A session that is shorter ends earlier, and so Spark refuses a row that this count believes to be in
    time: where windows are not as declared, Spark's figure counts if it is larger; it is of rows or, where they were added up
    before, of groups of them. An operator above it gets rows that no table has, so only Spark can count them. Its figures are
    final once the batch's rows are written, which is before their commit: so they are in the entry, and a batch that is killed
    and runs again counts anew.
    """

    def __init__(self) -> None:
        """Begin; nothing is known of the query."""
        self._is_chained: bool | None = None

    def count(self, spark: SparkSession, stream: str) -> Mapping[str, int]:
        """Return how many rows each operator above another has dropped in the batch that runs, by what it does.

        Args:
            spark: The session of the batch.
            stream: The query's id.
        """
        if self._is_chained is False:
            return NONE
        plan = _plan(spark, stream)
        if plan is None:
            return NONE
        found: dict[str, int] = {}
        self._is_chained = _walk(plan, found) > 1
        return found


def refused_first(spark: SparkSession, stream: str) -> int:
    """Return how many rows of the sources the first operators have dropped in the batch that runs, as Spark counts them."""
    plan = _plan(spark, stream)
    return 0 if plan is None else _first(plan)[1]


def _plan(spark: SparkSession, stream: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
    running = classic(spark).sharedState().activeStreamingQueries()
    query = running.get(jvm(spark).java.util.UUID.fromString(stream))
    return None if query is None else query.lastExecution().executedPlan()


def _first(node: Any) -> tuple[bool, int]:  # noqa: ANN401  # as above
    """Return whether there is an operator with state up to a node, and what those without another below have dropped."""
    below = [_first(each) for each in each_of(node.children())]
    is_there, dropped = any(each for each, _ in below), sum(rows for _, rows in below)
    if is_there or _kind(node) not in STATEFUL:
        return is_there, dropped
    return True, _dropped(node)


def _walk(node: Any, found: dict[str, int]) -> int:  # noqa: ANN401  # py4j's objects have no types
    """Note what the operators above others have dropped; return how many operators with state follow each other."""
    below = max((_walk(each, found) for each in each_of(node.children())), default=0)
    does = STATEFUL.get(_kind(node))
    if does is None:
        return below
    dropped = _dropped(node) if below else 0
    if dropped:
        found[does] = found.get(does, 0) + dropped
    return below + 1


def _dropped(node: Any) -> int:  # noqa: ANN401  # as above
    """Return what an operator has dropped; that of sessions does so where it reads its state."""
    at = node
    if _kind(node).startswith(SESSIONS):
        while not _kind(at).startswith(RESTORES):
            (at,) = each_of(at.children())
    return int(at.metrics().apply(DROPPED).value())


def _kind(node: Any) -> str:  # noqa: ANN401  # as above
    return str(node.getClass().getSimpleName())


OnCommit = Callable[[Entry], None]


MANY = 100_000
"""More partitions than a batch has."""


def unsorted(rows: DataFrame) -> DataFrame:
    """Return the rows of a batch without what Spark knows of their order; nothing is moved.

    An aggregate over a text (``max(status)``) sorts, and the batch says so by a column that it has under another id; to cache it then
    ends with "key not found".
    """
    plan: Any = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # there is no public way
    return rows if plan.outputOrdering().isEmpty() else rows.coalesce(MANY)


OTHER_COLUMNS = "DELTA_SCHEMA_CHANGED"
"""Begins the name of Delta's error for a stream whose source has other columns than when the query was planned."""


class Writer:
    """Writes the micro-batches of one table; Spark may call it twice with the same batch.

    The newest ledger entry says whether a batch was written: a table has one writer, so nothing is committed
    between the look and the write. The rows of a batch that was written are still consumed, because that
    advances the query's state.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # a batch's table and lake, and who is asked before and after
        self,
        table: Streamed,
        lake: Lake,
        mode: str,
        on_commit: OnCommit,
        guard: Guard | None,
        limit: TriggerLimit,
        pinned: Pinned | None = None,
    ) -> None:
        """Prepare to write.

        Args:
            table: The table.
            lake: Its lake.
            mode: The mode, as its entries have it.
            on_commit: Gets every entry after its commit.
            guard: Checks each batch before it is committed.
            limit: Refuses a batch that should be planned again, and measures the others.
            pinned: The versions of static tables with which the query was planned.
        """
        self._planned_after: object = self  # no batch
        self._planned_again = 0
        self._pinned = pinned or Pinned(table, lake)
        self._table = table
        self._lake = lake
        self._mode = mode
        self._on_commit = on_commit
        self._guard = guard
        self._limit = limit
        self._windows: Windows | None = None
        self._static: FileIndex | None = None
        self._selects: bool | None = None
        self._kept: set[str] = set()
        self._ids: dict[str, str] = {}
        self._dropped = DroppedRows()
        self._last: tuple[str, int] | None = None
        """The stream and the number of the batch that was written last; None after one that failed."""
        self.error: Exception | None = None
        self.writing = threading.Lock()
        """Held while a batch is written, so that its look-up is not repeated meanwhile."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch, unless it was written."""
        with (
            self.writing,
            schemas_from(Shelf(self._lake.schemas)),
            joining(self._table, self._lake),
        ):  # Spark calls from a thread of its own
            self._write(rows, number)

    def cause(self, failure: BaseException) -> BaseException:
        """Return what ended the query: this writer's own error, or what Spark's means."""
        if isinstance(self.error, LakeError | ReplanError):
            return self.error
        if OTHER_COLUMNS in str(failure):
            return self._replanned(failure)
        if transient(failure) is not None:
            return failure
        return (
            broken_state(self._table, self._lake, failure)
            or lost_file(failure, self._table, self._lake)
            or failure
        )

    def _replanned(self, failure: BaseException) -> BaseException:
        """Return what follows from a change of a source's columns under the stream: it is planned again, once a change."""
        if self._planned_after != self._last:
            self._planned_after, self._planned_again = self._last, 0
        self._planned_again += 1
        if self._planned_again > max(1, self._changes()):
            return DefinitionError(
                f"{self._table.id} cannot go on: a table that it reads has other columns than when it read it last",
                hint=f"`strandline migrate {self._table.id}` shows what follows from that.",
                table=self._table.id,
                spark=first_line(failure),
            )
        return ReplanError()

    def _changes(self) -> int:
        """Return how often its sources got other columns since it read them last."""
        seen = sums_of(self._lake.table(self._table)).seen
        return sum(
            1
            for source in self._table.upstream
            for path in [self._lake.table(source)]
            for version in range(seen.get(source.id, -1) + 1, latest_version(path) + 1)
            if any(actions(path, version, Kind.METADATA))
        )

    def _write(self, rows: DataFrame, number: int) -> None:
        checkpoint = self._lake.checkpoint(self._table)
        before, self._last = self._last, None
        try:
            stream = stream_id(checkpoint) or ""
            # The look is left out where this very writer has written the batch before this one: it is the only one.
            is_next = before == (stream, number - 1)
            if not is_next and self._has(self._lake.table(self._table), stream, number):
                if self._guard:  # killed before it could clear its gate
                    self._guard.passed(stream, number)
                rows.write.format("noop").mode("overwrite").save()
                keep_state(checkpoint, self._kept)
                return
            refuse_behind(self._table, self._lake)
            self._pinned.refuse_older()
            keep_plan(checkpoint, number)
            reached(PLANNED, self._lake.table(self._table))
            entry = self._written(rows, stream, number, is_next=is_next)
            keep_state(checkpoint, self._kept)
            self._last = stream, number
        except ReplanError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = error  # Spark passes on its text alone
            self._limit.failed(error)
            raise
        if entry is not None:
            self._limit.ended(entry)
            self._on_commit(entry)

    def _ordered(self, entry: Entry) -> Entry:
        """Return the entry of a batch without input with who ordered it, where it was planned to close the table."""
        found = close_ordered(self._lake.checkpoint(self._table))
        is_it = found is not None and found.batch == entry.batch
        return replace(entry, closed_by=found.by) if found and is_it else entry

    def _written(self, rows: DataFrame, stream: str, number: int, *, is_next: bool) -> Entry | None:
        spark, table, lake = rows.sparkSession, self._table, self._lake
        meter = Meter(spark)
        plan = planned(lake.checkpoint(table), number)
        # Read once: Spark ends a query whose source is made anew.
        self._ids = self._ids or {each.id: table_id(lake.table(each)) for each in table.upstream}
        inputs = inputs_of(table, lake, plan, self._ids)
        rows_read = sum(part.rows for read in inputs.values() for _, part in read)
        self._limit.refuse(plan, rows_read)
        self._limit.begins(number, rows_read)
        if self._selects is None:
            self._selects = not isinstance(table, Judged) and only_selects(spark, table, lake)
        most = self._limit.chosen()
        with meter.part(LEDGER):
            below = below_watermark(spark, table, plan, inputs, selects=self._selects)
            entry = opened(table, stream, plan, inputs, self._mode, most, below)
        entry = entry if rows_read else self._ordered(entry)
        if table.static:
            entry = replace(entry, static=self._pinned.versions)
            if not isinstance(table, Judged):
                before = before_first(spark, table, lake, inputs)
                entry = replace(entry, before_static=before)
        if isinstance(table, Appended) and table.rows:
            late_ms = plan.late_ms if below.dropped else 0
            entry = items_of(spark, table, lake, inputs, late_ms).added_to(entry)
        if plan.whole and isinstance(table, Judged):
            began_at = {name: first for name, (first, _) in entry.versions.items()}
            entry = replace(entry, imported=imported_until(table, lake, began_at))
        path = lake.table(table)
        write: Callable[..., Entry | None]
        match table:
            case Judged():
                quarantine = lake.quarantine(table)
                fork = Fork(
                    table=table,
                    path=path,
                    quarantine=quarantine,
                    guard=self._guard,
                    before=partial(rows_before_first, table, lake),
                )
                watch = watch_of(spark, table, lake, stream, inputs)
                held_already = not is_next and self._has(quarantine, stream, number)
                return fork.write(rows, entry, meter, watch, held_already=held_already)
            case Windowed() | Appended():
                dropped = partial(self._dropped.count, spark, entry.stream)
                write = partial(
                    append,
                    path=path,
                    dropped=dropped,
                    refused=partial(_refused, spark, below) if below.asks else None,
                    table=table,
                    selects=self._selects,
                )
            case Upserted():
                self._windows = self._windows or Windows(table, path)
                write = self._windows.change
            case _:
                assert_never(table)
        if table.dimension and self._static is None:
            self._static = FileIndex.of(spark, table.dimension.source, lake)
        # What emits over time may emit far more than it reads.
        is_bounded = isinstance(table, Upserted) and table.emits is Emit.ON_CHANGE
        most_rows = rows_read if is_bounded else OPEN
        with beside(spark, table, lake, unsorted(rows), self._static, most_rows) as (found, looked):
            refused = entry.dropped_by_watermark
            settled = replace(entry, looked=looked).settled(
                good=entry.read - refused - sum(entry.skipped.values()), held={}, dropped=refused
            )
            return write(found, entry=settled, meter=meter)

    @staticmethod
    def _has(path: Place, stream: str, number: int) -> bool:
        newest = last_entry(path)
        return newest is not None and newest[1].stream == stream and newest[1].batch >= number


def _refused(spark: SparkSession, below: Below, entry: Entry) -> Entry:
    """Return an entry with what Spark itself has dropped in the batch that runs."""
    return below.counted_in(entry, refused_first(spark, entry.stream))
