"""What is joined to a table's rows as of their event: a dimension, and again where it changed later; and static tables, whose content is taken in.

Each ledger entry records the version of the dimension at which its rows were looked up. Rows in the time range that
changed since are looked up again, and the rows that differ are replaced in a commit that streams skip.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import Lateness, shifted
from strandline.core.model import steps
from strandline.core.static import Static, frames_from
from strandline.core.table import Computed, Dimension, Judged, Table
from strandline.engine.accounting.gate_files import behind_source
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.governor import ReplanError
from strandline.engine.lake import shelves, static_versions
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import OPEN, by_key, sized, together
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND, FileIndex
from strandline.engine.lake.commit.replace_rows import (
    NO_TIME,
    TRIES,
    Exchange,
    Reach,
    came_and_gone,
    changed_span,
    changes,
    swap,
)
from strandline.engine.lake.completeness import horizon_us
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.ledger import (
    LOOKED_AGAIN,
    Entry,
    between,
    entries,
    is_table,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import Sums, follow, snapshot
from strandline.engine.lake.log.log_actions import Added
from strandline.engine.runtime.jvm import Meter

# Score a table's rows by the versions of its model that hold at their event time.
#
# The terms are read again for every batch, so a promotion changes a running stream at its next batch, without a restart.
# Every batch that has an event of a new term reads that term: a term begins later than any event that a batch which
# began before its promotion can have (jobs/strandline/engine/learning/promote_model.py).


def scored(table: Computed, lake: Lake, rows: DataFrame) -> DataFrame:
    """Add the columns of the model that scores a table; as they are, the rows of a table that none scores."""
    if table.scored_by is None:
        return rows
    return _added(rows, steps(shelves.in_force(lake, table.scored_by), table.event_at))


def unscored(table: Computed, rows: DataFrame) -> DataFrame:
    """Add the same columns without a value."""
    return rows if table.scored_by is None else _added(rows, steps((), table.event_at))


def _added(rows: DataFrame, columns: list[list[str]]) -> DataFrame:
    for step in columns:
        rows = rows.selectExpr("*", *step)
    return rows


@contextmanager
def beside(  # noqa: PLR0913, PLR0917  # which rows of what, how many, and where to look
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    batch: DataFrame,
    stock: FileIndex | None,
    count: int = OPEN,
) -> Iterator[tuple[DataFrame, dict[str, int]]]:
    """Add the dimension's columns to the rows of a batch, which are cached, because their time range is queried first.

    That query costs a job. It saves reading intervals that ended before the range, whose number only grows. ``count`` is the most
    rows that they can have.
    """
    if table.dimension is None:
        yield scored(table, lake, batch), {}
        return
    cached = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        at, source = F.unix_micros(table.event_at), table.dimension.source
        found = together(cached, count).agg(F.min(at), F.max(at), F.count(F.lit(1)))
        first, last, number = found.collect()[0]
        if not number and lake.exists(source):
            # Mostly no window is over: no plan is made of intervals that no row looks for.
            yield unknown(table, cached), {source.id: latest_version(lake.table(source))}
            return
        reach = NO_TIME if first is None else (first, last)
        yield adorned(spark, table, lake, cached, stock, reach)
    finally:
        cached.unpersist()


def adorned(  # noqa: PLR0913, PLR0917  # which rows of what, and where to look
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    rows: DataFrame,
    stock: FileIndex | None = None,
    reach: Reach = (-OPEN, OPEN),
) -> tuple[DataFrame, dict[str, int]]:
    """Add the dimension's columns to rows whose event times are within a reach; return the dimension's version too."""
    wanted = table.dimension
    if wanted is None:
        return scored(table, lake, rows), {}
    source = wanted.source
    if not lake.exists(source):
        return unknown(table, rows), {source.id: -1}
    version = latest_version(lake.table(source))
    intervals = (stock or FileIndex.of(spark, source, lake)).rows(version, *reach)
    return _looked_up(table, wanted, rows, intervals), {source.id: version}


def unknown(table: Computed, rows: DataFrame) -> DataFrame:
    """Add the columns of the dimension, and those of the model that scores the table, as NULL."""
    names = table.dimension.columns if table.dimension else ()
    return unscored(table, rows).withColumns({name: F.lit(None).cast("string") for name in names})


@dataclass(slots=True)
class Again:
    """Repeats the look-up of rows whose dimension changed, for the life of a run."""

    spark: SparkSession
    table: Computed
    lake: Lake
    _sums: Sums = field(init=False)
    _own: FileIndex = field(init=False)
    _dimensions: dict[Computed, FileIndex] = field(init=False)

    def __post_init__(self) -> None:
        """Follow the table's own ledger, which backfills write to as well."""
        self._sums = snapshot(self.lake.table(self.table)).sums
        self._own = FileIndex.of(self.spark, self.table, self.lake)
        wanted = self.table.dimension
        sources = [wanted.source] if wanted else []
        self._dimensions = {each: FileIndex.of(self.spark, each, self.lake) for each in sources}

    def look(self) -> Entry | None:
        """Replace the rows whose dimension changed since the last look-up; None if nothing changed.

        Behind a shut gate of a source it does nothing.

        This would undo a backfill's commit between its read and its own commit, so then it tries again; only the last
        try holds the table's turn throughout, and all other writers wait for it.
        """
        wanted, path = self.table.dimension, self.lake.table(self.table)
        if wanted is None or not self.lake.exists(wanted.source) or not is_table(path):
            return None
        if behind_source(self.table, self.lake):
            return None
        dimension = self.lake.table(wanted.source)
        for nth in range(TRIES):
            with turn(self.spark, path) if nth == TRIES - 1 else nullcontext():
                seen = latest_version(path)
                before, now = self._looked_until(), latest_version(dimension)
                if before == now:
                    return None
                entry = self._replace(wanted, before, now, seen)
                if entry is not None:
                    return entry
        return None

    def _looked_until(self) -> int:
        follow(self.lake.table(self.table), self._sums)
        return self._sums.right_until

    def _span(self, source: Computed, before: int, now: int) -> Reach | None:
        """Return the time range in which the dimension changed between two versions; everything if unknown."""
        path = self.lake.table(source)
        is_new = before < 0 or before > now  # never looked up, or the dimension was recreated
        if is_new or any(entry.replaced for entry in between(path, before + 1, now)):
            return self._kept(source, (-OPEN, OPEN))
        return self._kept(source, changed_span(self.spark, source, path, before, now))

    def _kept(self, source: Computed, span: Reach | None) -> Reach | None:
        """Return the part of a range of which retention has deleted nothing in the dimension; older rows stay as they are."""
        first = horizon_us(self.lake.table(source))
        if span is None or first is None or span[0] >= first:
            return span
        return (first, span[1]) if first <= span[1] else None

    def _replace(self, wanted: Dimension, before: int, now: int, seen: int) -> Entry | None:
        """Replace rows on top of a version of the table; None if another writer has committed since."""
        meter = Meter(self.spark)
        path, key = self.lake.table(self.table), list(self.table.key)
        source = wanted.source
        span = self._span(source, before, now)
        reach = span or NO_TIME
        rows = self._in_range(self._own.rows(seen, *reach), span)
        intervals = self._dimensions[source].rows(now, *reach)
        plain = rows.drop(*wanted.columns)
        new = _looked_up(self.table, wanted, plain, intervals).select(*rows.columns)
        changed = changes(new, rows).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            came, gone = came_and_gone(changed)
            between = (_text(span[0]), _text(span[1])) if span else ("", "")
            begun = new_entry.repair(self.table, LOOKED_AGAIN, LOOKED_AGAIN, source.id, between)
            begun = replace(begun, looked={source.id: now})
            entry = begun.exchanged(came=came, gone=gone, held={}, is_judged=False).closed(meter)
            if not came and not gone:
                with turn(self.spark, path):
                    if latest_version(path) != seen:
                        return None
                    delta_commit.Commit(self.spark, path).commit(entry.encoded())
                    return entry
            keys = changed.select(*key).distinct()
            exchange = Exchange(
                at=self.table.event_at,
                reach=reach,
                goes=lambda held: by_key(self._in_range(held, span), keys, key, "left_semi"),
                stays=lambda held: by_key(held, keys, key, "left_anti"),
                come=changed.where("_more > 0").drop("_more"),
                coming=came,
            )
            among = partial(self._own.files, first=reach[0], last=reach[1])
            is_done = swap(self.spark, path, exchange, entry.encoded(), among=among, seen=seen)
            return entry if is_done else None
        finally:
            changed.unpersist()

    def _in_range(self, rows: DataFrame, span: Reach | None) -> DataFrame:
        """Return the rows within a time range, by a condition that skips files outside of it."""
        if span is None:
            return rows.limit(0)
        moment, (first, last) = F.col(self.table.event_at), span
        from_first = (
            rows if first <= -OPEN else rows.where(moment >= F.timestamp_micros(F.lit(first)))
        )
        return (
            from_first
            if last >= OPEN
            else from_first.where(moment <= F.timestamp_micros(F.lit(last)))
        )


def _text(micros: int) -> str:
    return "open" if abs(micros) >= OPEN else (EPOCH + micros * MICROSECOND).isoformat()


def _looked_up(
    table: Computed, wanted: Dimension, rows: DataFrame, intervals: DataFrame
) -> DataFrame:
    return wanted.join(rows, intervals, table.event_at, wanted.columns)


# Join a table's rows with static tables: take their content in, find the versions for a function, say what was joined.
#
# A content that has changed becomes a version when a table that joins it starts, and, of one that is always on, between two of its batches.
# It holds from a moment that no event can have which was joined before: silver holds back what is ahead of its reader's clock by more
# than ``early``, so an event that is read now is no later than that, and a minute more is for the commit. A batch that was planned
# with the versions of before is not computed: its query starts again with today's (``Pinned.refuse_older``). So whatever
# batches a log falls into, and whenever it is computed, an event meets the version of its time.

SLACK = timedelta(minutes=1)
"""From the moment at which it is decided from when a version holds to its commit; what takes longer is decided anew."""

TURNS = 3
"""Times that a version is decided and written before its table goes on without it."""

ALIAS = "static__"
"""What the name of a static table begins with in a plan."""

LOOK = 1.0
"""Seconds between two looks of a table that is always on at the sources of its static tables."""

ASKED = 60.0
"""Seconds between two questions to a database, which shows by nothing else that it has other rows."""

Says = Callable[[str], None]


@contextmanager
def joining(table: Table, lake: Lake) -> Iterator[None]:
    """Let a table's function, called in the block, find the versions of the lake."""
    if not table.static:
        yield
        return
    with frames_from(partial(_frame, table, lake)):
        yield


def _frame(table: Table, lake: Lake, static: Static, at: str, rows: DataFrame) -> DataFrame:
    """Return the intervals of a static table as constants of a plan."""
    if static not in table.static:
        raise DefinitionError(
            f"{table.id} joins {static.id} and does not declare it",
            hint="add static=(…,) with it to the TABLE, so that ledger, verify and repairs know its version.",
            table=table.id,
            static=static.id,
        )
    times = dict.fromkeys([str(table.event_at), *(str(each.event_at) for each in table.upstream)])
    if at not in times:
        raise DefinitionError(
            f"{table.id} joins {static.id} as of {at}, which is no event time",
            hint=f"join it as of {' or '.join(each for each in times if each != 'None')}, before that column is renamed: "
            "of another time a later version may hold, and a row would change when it is computed again.",
            table=table.id,
            static=static.id,
        )
    version = latest_version(lake.table(static))
    found = static_versions.intervals(static, lake, version)
    return rows.sparkSession.createDataFrame(found).alias(f"{ALIAS}{static.name}")


def frame_of_now(static: Static, at: str, rows: DataFrame) -> DataFrame:  # noqa: ARG001  # the shape of all
    """Return what the source of a static table has now, as its one version; for tests, which have no lake."""
    return rows.sparkSession.createDataFrame(static_versions.intervals_of_now(static))


@dataclass(slots=True)
class Pinned:
    """The versions with which a query was planned, for the life of a run."""

    table: Table
    lake: Lake
    versions: dict[str, int] = field(default_factory=dict)

    def pin(self) -> None:
        """Note today's; what is planned after this has them, or newer ones."""
        self.versions = static_versions.versions(self.table.static, self.lake)

    def refuse_older(self) -> None:
        """Refuse a batch whose plan has older versions than today's, before any of it is computed.

        What a later version holds of is not in the batch: its events are read after that version's commit.

        Raises:
            ReplanError: It has.
        """
        if self.table.static and self.versions != (
            now := static_versions.versions(self.table.static, self.lake)
        ):
            newer = ", ".join(name for name, each in now.items() if self.versions.get(name) != each)
            raise ReplanError(f"{newer} has a newer version than the query of {self.table.id}")


def noted(entry: Entry, table: Table, lake: Lake) -> Entry:
    """Return an entry with today's versions of the static tables that its rows were joined with."""
    if not table.static:
        return entry
    return replace(entry, static=static_versions.versions(table.static, lake))


def before_first(
    spark: SparkSession, table: Table, lake: Lake, read: Mapping[str, Iterable[tuple[int, Added]]]
) -> dict[str, int]:
    """Count for each static table the rows that a batch of gold reads whose event lies before the first version."""
    found = {}
    for static in table.static:
        first = static_versions.first_moment(static, lake)
        if first is None:
            continue
        count = sum(
            _before(
                spark, str(source.event_at), first, [part for _, part in read.get(source.id, ())]
            )
            for source in table.upstream
        )
        if count:
            found[static.id] = count
    return found


def _before(spark: SparkSession, column: str, first: datetime, parts: list[Added]) -> int:
    files = [
        file
        for part in parts
        for file in part.files
        if not (lowest := part.lowest.get(column)) or datetime.fromisoformat(lowest) < first
    ]
    return spark.read.parquet(*files).where(F.col(column) < F.lit(first)).count() if files else 0


def rows_before_first(table: Table, lake: Lake, rows: DataFrame) -> dict[str, int]:
    """Count the same of some rows with a table's event time."""
    return _counts(table, lake, rows, str(table.event_at))


def all_before_first(table: Table, lake: Lake, read: Iterable[DataFrame]) -> dict[str, int]:
    """Count the same of the rows of each source that a recomputation reads."""
    found: dict[str, int] = {}
    for source, rows in zip(table.upstream, read, strict=True) if table.static else ():
        for name, count in _counts(table, lake, rows, str(source.event_at)).items():
            found[name] = found.get(name, 0) + count
    return found


def last_first_moment(table: Table, lake: Lake) -> datetime | None:
    """Return the latest moment from which the first version of a static table holds; None where each holds of all time."""
    firsts = (static_versions.first_moment(each, lake) for each in table.static)
    return max((each for each in firsts if each is not None), default=None)


def _counts(table: Table, lake: Lake, rows: DataFrame, column: str) -> dict[str, int]:
    firsts = {each.id: static_versions.first_moment(each, lake) for each in table.static}
    counts = {
        name: rows.where(F.col(column) < F.lit(first)).count()
        for name, first in firsts.items()
        if first is not None
    }
    return {name: each for name, each in counts.items() if each}


# Taking a content in.


class Taker:
    """Takes in what the sources of a table's static tables have, for the life of a run."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        lake: Lake,
        clock: Callable[[], datetime],
        says: Says,
    ) -> None:
        """Prepare; nothing was looked at."""
        self._spark, self._table, self._lake = spark, table, lake
        self._clock, self._says = clock, says
        self._stamps: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._due = 0.0

    def look(self) -> None:
        """Look, if a look is due."""
        if self._table.static and time.monotonic() >= self._due:
            self.take()
            self._due = time.monotonic() + self._lake.pause(LOOK)

    def take(self) -> None:
        """Take in what has changed.

        Raises:
            DefinitionError: A source cannot be read, and the lake has no version of it.
        """
        for static in self._table.static:
            if static_versions.is_fixed(static, self._lake):
                continue
            if static.id not in self._stamps:
                static_versions.refuse_other_shape(static, self._lake)
            try:
                stamp = self._stamp(static)
                if self._stamps.get(static.id) == stamp:
                    continue
                if static.query is not None:  # one that is away is not waited for at each look
                    self._stamps[static.id] = stamp
                self._take(static)
                self._stamps[static.id] = stamp
                self._said.pop(static.id, None)
            except (DefinitionError, TransientError) as error:
                newest = static_versions.newest(static, self._lake)
                if newest is None:
                    raise
                self._say_once(
                    static, f"{error.message}; its version {newest[0]} goes on. {error.hint}"
                )

    @staticmethod
    def _stamp(static: Static) -> str:
        if static.query is not None:
            return str(time.monotonic() // ASKED)
        return static_versions.stamp(static)

    def _say_once(self, static: Static, line: str) -> None:
        if self._said.get(static.id) != line:
            self._said[static.id] = line
            self._says(f"{self._table.id}: {line}")

    def _take(self, static: Static) -> None:
        newest = static_versions.newest(static, self._lake)
        if static_versions.read(static, unless=newest[1].source if newest else "") is None:
            return
        path = self._lake.table(static)
        schema = static_versions.schema_of(static)
        if newest is None:
            create_table.create(
                self._spark, path, schema, properties=static_versions.properties_of(static)
            )
        with turn(self._spark, path):
            create_table.add_columns(self._spark, path, schema)
            # Another process may have been faster, and with what was there later.
            if source := static_versions.read(static):
                self._commit(static, source)

    def _commit(self, static: Static, source: static_versions.Source) -> None:
        """Commit what has changed, within the turn of the next version."""
        meter, path = Meter(self._spark), self._lake.table(static)
        changed = static_versions.changes(static, self._lake, source.content)
        before = [each.holds_from for _, each in entries(path)]
        if before and not changed:
            return
        nth = latest_version(path) + 1
        for _ in range(TURNS):
            decided = self._clock()
            at = self._from(static, before)
            commit = delta_commit.Commit(self._spark, path)
            written = self._written(commit, static_versions.kept(static, changed, at, nth))
            if not before or self._clock() - decided < SLACK / 2:
                break
            commit.abandon()
        else:
            raise TransientError(
                f"version {nth} of {static.id} could not be written within {SLACK.seconds // 2} seconds, {TURNS} times",
                hint="the lake's disk or store is slow; the next look tries again, and the moment from which it holds is later then.",
                static=static.id,
            )
        entry = new_entry.content(static, nth, source.text, written, at)
        commit.commit(entry.closed(meter, written=written).encoded())
        self._says(f"{self._table.id}: {_sentence(static, nth, changed, at, before)}")

    def _written(self, commit: delta_commit.Commit, rows: static_versions.Rows) -> int:
        if not rows.num_rows:
            return 0
        return commit.write(sized(self._spark.createDataFrame(rows), rows.num_rows)).rows

    def _from(self, static: Static, before: Sequence[str]) -> datetime | None:
        """Return the moment from which a version holds after others; None for all time."""
        declared = static.holds_from
        if not before:
            return declared
        soonest = shifted(self._clock(), _early(static, self._table) + SLACK).replace(microsecond=0)
        last = datetime.fromisoformat(before[-1]) if before[-1] else None
        return max(each for each in (soonest, declared, last) if each is not None).astimezone(UTC)


def outlook(table: Table, lake: Lake) -> list[str]:
    """Return what a start would find of a table's static tables.

    Raises:
        DefinitionError: It would be refused.
    """
    found = []
    for static in table.static:
        static_versions.refuse_other_shape(static, lake)
        newest = static_versions.newest(static, lake)
        try:
            source = static_versions.read(static, unless=newest[1].source if newest else "")
        except (DefinitionError, TransientError) as error:
            if newest is None:
                raise
            found.append(f"{error.message}; its version {newest[0]} goes on")
            continue
        if newest and source and static_versions.changes(static, lake, source.content):
            found.append(
                f"{static.id} has another content than version {newest[0]}: a start takes it in"
            )
    return found


def _early(static: Static, table: Table) -> timedelta:
    """Return how far an event that is believed may be ahead of its reader's clock, in the tables that join a static table."""
    joins = [
        table,
        *(each for each in catalog.tables() if static.id in {s.id for s in each.static}),
    ]
    judged = {each.id: each for taker in joins for each in _judged_below(taker)}
    return max([Lateness().early, *(each.lateness.early for each in judged.values())])


def _judged_below(table: Table) -> Iterator[Judged]:
    if isinstance(table, Judged):
        yield table
    for source in table.needs:
        yield from _judged_below(source)


def _sentence(
    static: Static,
    version: int,
    changed: Sequence[static_versions.Key],
    at: datetime | None,
    before: Sequence[str],
) -> str:
    """Return what is said of a version; ``before`` are the moments from which those before it hold."""
    holds = static_versions.holds_said(_as_text(at))
    if not before:
        return f"version {version} of {static.id} has {len(changed):,} rows and holds {holds}"
    gone = sum(1 for each in changed if each[-1])
    more = (
        f"version {version} of {static.id}, with {len(changed) - gone:,} new or changed rows and without {gone:,}, "
        f"holds {holds}"
    )
    asked = static.holds_from
    if asked is None or at is None or asked >= at or _as_text(asked) in before:
        return more
    return (
        f"{more}, and not from {asked.isoformat(sep=' ', timespec='seconds')} on: events of that time are joined already. "
        "For these give it another name, and rebuild the tables that join it"
    )


def _as_text(at: datetime | None) -> str:
    return at.astimezone(UTC).isoformat() if at else ""
