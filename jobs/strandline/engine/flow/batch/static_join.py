"""Join a table's rows with static tables: take their content in, find the versions for a function, say what was joined.

A content that has changed becomes a version when a table that joins it starts, and, of one that is always on, between two of its batches.
It holds from a moment that no event can have which was joined before: silver holds back what is ahead of its reader's clock by more
than ``early``, so an event that is read now is no later than that, and a minute more is for the commit. A batch that was planned
with the versions of before is not computed: its query starts again with today's (``Pinned.refuse_older``). So whatever
batches a log falls into, and whenever it is computed, an event meets the version of its time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.lateness import Lateness, shifted
from strandline.core.static import Static, frames_from
from strandline.core.table import Judged, Table
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.governor import ReplanError
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import sized
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.ledger import Entry, entries, latest_version
from strandline.engine.lake.log.log_actions import Added
from strandline.engine.lake.read import static_versions
from strandline.engine.runtime.meter import Meter

SLACK = timedelta(minutes=1)
"""From the moment at which it is decided from when a version holds to its commit; what takes longer is decided anew."""

TRIES = 3
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
        for _ in range(TRIES):
            decided = self._clock()
            at = self._from(static, before)
            commit = delta_commit.Commit(self._spark, path)
            written = self._written(commit, static_versions.kept(static, changed, at, nth))
            if not before or self._clock() - decided < SLACK / 2:
                break
            commit.abandon()
        else:
            raise TransientError(
                f"version {nth} of {static.id} could not be written within {SLACK.seconds // 2} seconds, {TRIES} times",
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
    holds = static_versions.holds_said(_text(at))
    if not before:
        return f"version {version} of {static.id} has {len(changed):,} rows and holds {holds}"
    gone = sum(1 for each in changed if each[-1])
    more = (
        f"version {version} of {static.id}, with {len(changed) - gone:,} new or changed rows and without {gone:,}, "
        f"holds {holds}"
    )
    asked = static.holds_from
    if asked is None or at is None or asked >= at or _text(asked) in before:
        return more
    return (
        f"{more}, and not from {asked.isoformat(sep=' ', timespec='seconds')} on: events of that time are joined already. "
        "For these give it another name, and rebuild the tables that join it"
    )


def _text(at: datetime | None) -> str:
    return at.astimezone(UTC).isoformat() if at else ""
