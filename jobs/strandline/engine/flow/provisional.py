"""What the windows of a table have so far that are not over: provisional rows beside it, such as those of today.

They are computed from what the table reads as of now, as a whole, and replace those of before in one commit. They are no part of any
book: no certificate, gate, repair, publication or table above reads them, a snapshot leaves them out, and no verb waits for them. A
stream computes them in a thread beside its batches, in a pool of Spark's scheduler of their own.

A reader takes those whose window ends after all windows of the table: what became final since they were computed is never there twice.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.kind import FIRST, shifted
from strandline.core.table import Computed, Recomputed, Table, Windowed
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.flow.batch.event_joins import adorned, joining
from strandline.engine.flow.batch.joined_streams import joined
from strandline.engine.flow.plan import emits_over_time, framed
from strandline.engine.flow.recompute import BATCH_STREAM, bound_of
from strandline.engine.lake.commit.delta_commit import OPEN, overwrite, rows_at
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND, FileIndex
from strandline.engine.lake.completeness import (
    PROVISIONAL,
    alone,
    has_mark,
    known_reach,
    over_until,
    refuse_unbounded,
    retired,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import between, is_table, last_entry, latest_version
from strandline.engine.lake.open_table import declared_schema
from strandline.engine.lake.plain_files import is_scratch
from strandline.engine.lake.spark_checkpoint import closed_ms, read_record, settled_ms
from strandline.engine.lake.store_lease import HeldError
from strandline.engine.runtime.jvm import loss

POOL_NAME = "spark.scheduler.pool"
"""Spark's name for what the jobs of a thread share the cores with."""

REST = 9
"""They take a tenth of the time of a thread at most: after each computation it rests for so many times as long."""


SOON = 10.0
"""Seconds until the next look at a table whose stream has not said yet which windows are over."""

_TURN = threading.Lock()
"""One table of a process computes them at a time: two hundred that begin together would take the cores from their own batches."""


def over_now(table: Computed, lake: Lake, spark: SparkSession) -> datetime:
    """Return the moment up to which the windows of a table are over, and in it; the first of all where none is.

    A batch keeps no watermark: it is that of the rows that it read, or what was ordered of it.

    Raises:
        DefinitionError: It has no windows that it emits when they are over.
    """
    waits = emits_over_time(table) or (isinstance(table, Recomputed) and table.waits)
    if not table.window_length or not waits:
        raise DefinitionError(
            f"{table.id} has no windows that wait until they are over, so none is open",
            hint=f"`strandline try {table.id}` shows its last rows; what it has so far is in the table.",
            table=table.id,
        )
    if isinstance(table, Recomputed):
        return over_until(table, lake) or FIRST
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    if newest is None or newest[1].stream != BATCH_STREAM:
        settled = settled_ms(lake.checkpoint(table), emits_over_time=True)
        return shifted(EPOCH, timedelta(milliseconds=settled)) if settled else FIRST
    read = newest[1].versions
    try:
        rows = [rows_at(spark, lake.table(each), read[each.id][1]) for each in table.upstream]
        by_rows = bound_of(table, rows)
    except PySparkException as error:
        if loss(error):
            raise
        raise DefinitionError(
            f"what the last batch of {table.id} has read is not there any more, so it is not known which windows are over",
            hint=f"`strandline run {table.id} --mode batch`, then the same again.",
            table=table.id,
        ) from error
    bound = max(by_rows, closed_ms(lake.checkpoint(table)) * 1000)
    return shifted(EPOCH, timedelta(microseconds=bound)) if bound > 0 else FIRST


def moment_of(source: Table) -> str:
    """Return the column with the time of a row."""
    return str(source.event_at) if source.event_at else "_arrived_at"


def since(rows: DataFrame, source: Table, begin: datetime) -> DataFrame:
    """Return the rows of a table after a moment; of intervals those that hold after it."""
    if source.valid_until:
        ends = F.col(source.valid_until)
        return rows.where(ends.isNull() | (ends > begin))
    return rows.where(F.col(moment_of(source)) > begin)


def reads_from(spark: SparkSession, table: Computed, lake: Lake, over: datetime) -> datetime:
    """Return the moment after which the rows lie from which the windows are computed that are not over.

    Of a table that no stream has made, the plan of its stream says how far apart rows lie that meet, as a repair asks it.

    Raises:
        DefinitionError: Nothing says that, so the rows of a stream's windows might lack partners.
    """
    if (
        isinstance(table, Windowed)
        and not table.reach
        and read_record(lake.checkpoint(table)) is None
    ):
        reach = _planned_reach(spark, table, lake)
        return FIRST if reach is None else shifted(over, -(table.window_length + reach))
    refuse_unbounded(table, lake)
    return shifted(over, -(table.window_length + (known_reach(table, lake) or timedelta(0))))


def _planned_reach(spark: SparkSession, table: Windowed, lake: Lake) -> timedelta | None:
    try:
        run = framed(spark, table, lake)
        return joined(table, run.sources, run.result).apart
    except PySparkException as error:
        if loss(error):
            raise
        return None  # its function does not run: what computes it says so


def open_windows(
    spark: SparkSession,
    table: Windowed | Recomputed,
    lake: Lake,
    over: datetime,
    stock: FileIndex | None = None,
) -> DataFrame:
    """Return the rows of a table's windows that end after a moment, from all that its sources have of them.

    Of the table's dimension no interval is read that ended before them; ``stock`` knows its files from the time before.
    """
    begin = reads_from(spark, table, lake, over)
    sources = [
        since(rows_at(spark, lake.table(each), latest_version(lake.table(each))), each, begin)
        for each in table.upstream
    ]
    with joining(table, lake):
        reach = ((begin - EPOCH) // MICROSECOND, OPEN)
        rows, _ = adorned(spark, table, lake, table.computed(*sources), stock, reach)
    if has_mark(rows.columns):
        raise DefinitionError(
            f"{table.id} has a column {PROVISIONAL}, which marks provisional rows",
            hint="call the column otherwise, or leave `provisional` out.",
            table=table.id,
        )
    is_not_over = F.col(str(table.closes_at)) > F.lit(over)
    found = _as_declared(rows.where(is_not_over), table, lake)
    return found.withColumn(PROVISIONAL, F.lit(True))  # a value


def _as_declared(rows: DataFrame, table: Table, lake: Lake) -> DataFrame:
    """Return rows with the columns that the table has: one that its function returns no more is NULL, a longer type stays."""
    had = {each.name: each.dataType for each in rows.schema}
    values = {name: F.col(name) for name in rows.columns}
    columns = [
        _as_type(values.pop(name), had[name], each.dataType).alias(name)
        if (name := each.name) in values
        else F.lit(None).cast(each.dataType).alias(name)
        for each in declared_schema(lake.table(table))
    ]
    return rows.select(*columns, *values.values())


def _as_type(value: Column, had: DataType, wanted: DataType) -> Column:
    """Return a value as another type, the fields of a struct by their names: a cast takes them by their order."""
    match had, wanted:
        case StructType(), StructType():
            types = {each.name: each.dataType for each in had}
            found = [
                _as_type(value.getField(each.name), types[each.name], each.dataType)
                if each.name in types
                else F.lit(None).cast(each.dataType)
                for each in wanted
            ]
            named = [each.alias(of) for each, of in zip(found, wanted.names, strict=True)]
            return F.when(value.isNotNull(), F.struct(*named))
        case ArrayType(), ArrayType():
            return F.transform(
                value, lambda each: _as_type(each, had.elementType, wanted.elementType)
            )
        case MapType(), MapType():
            keys = F.transform_keys(
                value, lambda key, _: _as_type(key, had.keyType, wanted.keyType)
            )
            return F.transform_values(
                keys, lambda _, each: _as_type(each, had.valueType, wanted.valueType)
            )
        case _:
            return value.cast(wanted)


@dataclass(slots=True)
class Aside:
    """Keeps the provisional rows of a table that declares them; of another it does nothing.

    Args:
        spark: The session.
        table: The table.
        lake: The lake.
        now: The clock.
        says: Hears why they could not be computed, once a reason.
    """

    spark: SparkSession
    table: Table
    lake: Lake
    now: Callable[[], datetime]
    says: Callable[[str], None]
    _due: float = 0.0
    _thread: threading.Thread | None = None
    _seen: tuple[int, ...] = ()
    _tried: tuple[int, ...] = ()
    _given_up: tuple[int, ...] = ()
    _stock: FileIndex | None = None
    _said: str = ""

    @property
    def is_kept(self) -> bool:
        """Return whether the table has such rows, in a lake of its own."""
        of = self.table
        declared = isinstance(of, Windowed | Recomputed) and of.refreshed is not None
        return declared and not self.lake.is_rebuilding and not is_scratch(self.lake.root)

    @property
    def _is_at_it(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def is_owed(self, versions: Mapping[str, int | None]) -> bool:
        """Return whether something came that is not computed yet; what cannot be computed as it is declared is not owed.

        Args:
            versions: The newest version of the table and of each that it needs, which its host looks up for all tables.
        """
        if not self.is_kept:
            return False
        newest = tuple(versions[each.id] for each in (self.table, *self.table.needs))
        return self._is_at_it or newest not in {self._seen, self._given_up}

    def _versions(self) -> tuple[int, ...]:
        """Return the newest versions of the table and of what it needs."""
        return tuple(
            latest_version(self.lake.table(each)) for each in (self.table, *self.table.needs)
        )

    def look(self) -> None:
        """Compute them in a thread where they are due; called again and again by what follows a stream, which never waits for it."""
        if self._is_at_it or time.monotonic() < self._due or not self.is_kept:
            return
        if not _TURN.acquire(blocking=False):
            return
        self._due = time.monotonic() + 1  # set anew when it is done
        self._thread = threading.Thread(target=self._at_turn, name=f"{self.table.id} provisional")
        self._thread.daemon = True
        try:
            self._thread.start()
        except BaseException:
            _TURN.release()
            raise

    def _at_turn(self) -> None:
        try:
            self._keep()
        finally:
            _TURN.release()

    def keep(self) -> None:
        """Compute them, where something came since; that they cannot be computed fails no run."""
        if self.is_kept:
            with _TURN:
                self._keep()

    def _keep(self) -> None:
        of = self.table
        if not self.is_kept or not isinstance(of, Windowed | Recomputed) or of.refreshed is None:
            return
        began, is_early = time.monotonic(), False
        try:
            is_early = self._compute(of)
        except HeldError:
            pass  # another process is at it
        except Exception as error:  # noqa: BLE001  # whatever the function raises: its own batches say it as well
            if isinstance(error, DefinitionError):
                self._given_up = self._tried
            self._fails(error)
        else:
            self._said = ""
        took = time.monotonic() - began
        every = of.refreshed.total_seconds()
        every = min(every, SOON) if is_early else every
        self._due = time.monotonic() + max(every - took, REST * took)

    def _compute(self, table: Windowed | Recomputed) -> bool:
        """Compute them; return whether it is too early, because the stream has not said yet which windows are over."""
        lake = self.lake
        seen = self._tried = self._versions()
        before = seen[0]
        if any(not lake.exists(each) for each in (table, *table.upstream)):
            self._given_up = seen
            return False
        refuse_behind(table, lake)
        if seen == self._seen and is_table(lake.provisional(table.id)):
            return False
        with alone(table.id, lake) as kept, self._in_own_pool():
            kept.mend()
            over = over_now(table, lake, self.spark)
            # Else all that its sources have would be computed beside the batch that does so.
            if over == FIRST and isinstance(table, Windowed) and lake.checkpoint(table).exists():
                self._given_up = seen
                return True
            try:
                overwrite(kept.place, open_windows(self.spark, table, lake, over, self._files()))
                kept.sweep(self.now())
            finally:
                is_late = self._is_late(before)
                if is_late:
                    kept.place.remove(if_possible=True)
            if is_late:
                return False
        self._seen = seen
        return False

    def _files(self) -> FileIndex | None:
        """Return the files of the table's dimension, of which each commit is read once."""
        wanted = self.table.dimension if isinstance(self.table, Windowed | Recomputed) else None
        if self._stock is None and wanted is not None and self.lake.exists(wanted.source):
            self._stock = FileIndex.of(self.spark, wanted.source, self.lake)
        return self._stock

    def _is_late(self, before: int) -> bool:
        """Return whether the table was promoted meanwhile, or retired: the rows are by code of before, and what removes them is done."""
        path = self.lake.table(self.table)
        since = between(path, before + 1, latest_version(path))
        return self.table.id in retired(self.lake) or any(each.promoted for each in since)

    @contextmanager
    def _in_own_pool(self) -> Iterator[None]:
        context = self.spark.sparkContext
        former = context.getLocalProperty(POOL_NAME)
        context.setLocalProperty(POOL_NAME, PROVISIONAL)
        try:
            yield
        finally:
            context.setLocalProperty(POOL_NAME, former)  # type: ignore[arg-type]  # None takes it back

    def _fails(self, error: Exception) -> None:
        said = error.message if isinstance(error, LakeError) else str(error).strip()
        first = said.splitlines()[0] if said else type(error).__name__
        if first != self._said and not loss(error):
            self._said = first
            with suppress(Exception):  # the program may be about to end
                self.says(f"{self.table.id}: its provisional rows are those of before: {first}")
