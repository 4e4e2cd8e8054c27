"""Queries of history: the last batches of a table, its hours, its figures of a day; and what in them has changed.

DuckDB reads the Delta table at its latest version, without a JVM. Shares and ranges are not stored but computed, so a
better definition of what is usual applies to the whole past at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from strandline.core.table import Table
from strandline.engine.lake.duckdb_table import Peek, literal, peek
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import FORGET
from strandline.engine.lake.log.log_actions import table_id

# The usual range of a table's measure, learnt from its past: median and spread, by the hour of the week.
#
# Why the median and the distance from it (MAD) rather than mean and deviation: one batch of a catch-up is a hundred
# times the usual one, and a mean would need weeks to forget it. Why the hour of the week: at three on a Sunday, half
# the volume of Friday noon is no reason to worry.
#
# Without enough points there is no range: with fewer than ``FEWEST`` it would be a guess, and a guess raises false alarms.


FEWEST = 14
"""The number of points below which there is no range."""

WIDTH = 4.0
"""How many spreads around the median are usual."""

AS_DEVIATION = 1.4826
"""The factor from the median distance of normally distributed values to their standard deviation."""

RECENT = 500
"""How many of the newest points are used while an hour of the week has too few."""

TOLERANCE = 0.1
"""The share of the median that is always within the range, however steady the measure was."""


@dataclass(frozen=True, slots=True)
class Point:
    """The value of a measure at a time.

    Args:
        at: The time, in UTC.
        value: The value.
        is_believed: Whether to learn from it; a batch that failed a critical expectation does not count.
    """

    at: datetime
    value: float
    is_believed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The usual range of a measure.

    Args:
        low: The lowest usual value.
        middle: The median.
        high: The highest usual value.
        points: The number of points that it was learnt from.
    """

    low: float
    middle: float
    high: float
    points: int

    def __contains__(self, value: float) -> bool:
        """Return whether a value is usual."""
        return self.low <= value <= self.high


def expected(points: Iterable[Point], at: datetime, *, least: float = 0.0) -> Range | None:
    """Return the usual range of a measure at a time; None without enough points.

    Args:
        points: The past values; those at that time or after it are ignored.
        at: The time; its hour of the week counts, if enough points share it.
        least: A distance from the median that is always usual, in the measure's unit.
    """
    known = [point for point in points if point.is_believed and point.at < at]
    alike = [point for point in known if _hour_of_week(point.at) == _hour_of_week(at)]
    values = [point.value for point in (alike if len(alike) >= FEWEST else known)]
    if len(values) < FEWEST:
        return None
    middle = median(values)
    spread = AS_DEVIATION * median(abs(value - middle) for value in values)
    reach = max(WIDTH * spread, TOLERANCE * abs(middle), least)
    low = middle - reach if min(values) < 0 else max(middle - reach, 0.0)
    return Range(low=low, middle=middle, high=middle + reach, points=len(values))


class Memory:
    """Points in the order of time, for a caller that asks ``expected`` before each of them."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        """Begin with some points, oldest first."""
        self._all: list[Point] = []
        self._alike: dict[tuple[int, int], list[Point]] = defaultdict(list)
        for point in points:
            self.add(point)

    def add(self, point: Point) -> None:
        """Add a point, which is newer than all others."""
        if point.is_believed:
            self._all.append(point)
            self._alike[_hour_of_week(point.at)].append(point)

    def expected(self, at: datetime, *, least: float = 0.0) -> Range | None:
        """Return the usual range at a time after all points."""
        alike = self._alike[_hour_of_week(at)]
        enough = len(alike) >= FEWEST
        return expected(alike if enough else self._all[-RECENT:], at, least=least)


def _hour_of_week(moment: datetime) -> tuple[int, int]:
    here = moment.astimezone(UTC)
    return here.weekday(), here.hour


MEMORY = "26 weeks"
"""How old a point may be to be learnt from."""

MOST = 2_000
"""How many of the newest points are learnt from."""

AT_ONCE = 50_000
"""The figures of tables that are read by one query; those of one table are, however many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A commit, or all commits of an hour together.

    Args:
        table: The table's one name.
        version: The version of the commit, or the last one of the hour.
        mode: The mode that wrote it.
        batch: Its number.
        at: When it was committed, or the start of the hour.
        since: The first event time of its rows.
        until: The last one.
        values: The figures by name.
        opened: Why an operator opened the gate for it.
        rules: Fingerprint of the rules; empty where none is known.
        schema: Fingerprint of the columns.
    """

    table: str
    version: int
    mode: str
    batch: int
    at: datetime
    since: datetime | None
    until: datetime | None
    values: Mapping[str, float]
    opened: str | None
    rules: str
    schema: str

    def value(self, measure: str) -> float:
        """Return a figure, or a share of the rows read: ``share:quarantined`` is one."""
        kind, _, name = measure.partition(":")
        if kind != "share":
            return self.values.get(measure, 0.0)
        read = self.values.get("read", 0.0)
        return self.values.get(name, 0.0) / read if read > 0 else 0.0

    @property
    def is_believed(self) -> bool:
        """Return whether to learn from it: it passed without an opened gate, and it is no backfill."""
        return not self.values.get("opened") and not self.values.get("backfill")


class Past:
    """The history of a lake, opened once."""

    def __init__(self, lake: Lake, opened: Peek | None = None) -> None:
        """Open its latest version, which ``commit_history.catch_up`` brings up to date, or take it as ``commit_history.read_on`` has opened it."""
        self._lake = lake
        self._table = opened or peek(lake.history, "history")

    def last(self, table: Table, count: int) -> list[Batch]:
        """Return the newest batches of a table, oldest first."""
        ((_, found),) = self.last_of([table], count)
        return found

    def last_of(self, tables: Sequence[Table], count: int) -> Iterator[tuple[Table, list[Batch]]]:
        """Yield tables with the newest batches of each, oldest first; many at a time, as long as they fit into memory."""
        sizes = self._rows_of('SELECT "table", count(*) AS rows FROM own GROUP BY "table"', tables)
        sql = """
            SELECT * FROM own
            QUALIFY dense_rank() OVER (PARTITION BY "table" ORDER BY version DESC) <= getvariable('count_')
        """
        for some in _packed(tables, {name: _size(rows) for name, rows in sizes.items()}):
            found = self._batches_of(sql, some, count_=count)
            for table in some:
                yield table, found.pop(table.id)

    def between(self, table: Table, since: datetime, until: datetime) -> list[Batch]:
        """Return the batches that were committed in a range, oldest first."""
        sql = """
            SELECT * FROM own WHERE "at" >= getvariable('since_') AND "at" < getvariable('until_')
        """
        return self._batches_of(sql, [table], since_=since, until_=until)[table.id]

    def hours(self, table: Table, since: datetime, until: datetime) -> list[Batch]:
        """Return the figures of each hour of a range, from the batches that are in force.

        A table that a later batch replaced as a whole begins with that batch, as in the ledger. For delays and for
        shares of absent values the hour has the largest value; all other figures are summed.
        """
        return self.hours_of([table], since, until)[table.id]

    def hours_of(
        self, tables: Sequence[Table], since: datetime, until: datetime
    ) -> dict[str, list[Batch]]:
        """Return the same of several tables by their names, by one query: of three hundred, one each takes seconds."""
        begun = """
            , begun AS (
                SELECT "table", max(version) FILTER (measure = 'replaced') AS begun_at FROM own GROUP BY "table")
        """
        sql = """
            SELECT
                own."table" AS "table", max(version) AS version, last(mode ORDER BY version) AS mode,
                max(batch) AS batch, date_trunc('hour', "at") AS "at", min(since) AS since,
                max("until") AS "until", measure,
                CASE WHEN measure IN ('lag', 'freshness_s') OR starts_with(measure, 'null:')
                    THEN max("value") ELSE sum("value") END AS "value",
                last(note ORDER BY version) FILTER (note IS NOT NULL) AS note,
                last(rules ORDER BY version) AS rules, last("schema" ORDER BY version) AS "schema"
            FROM own JOIN begun ON own."table" = begun."table"
            WHERE version >= coalesce(begun_at, 0)
                AND "at" >= getvariable('since_') AND "at" < getvariable('until_')
            GROUP BY own."table", date_trunc('hour', "at"), measure
        """
        return self._batches_of(sql, tables, by="at", before=begun, since_=since, until_=until)

    def core_seconds(self, table: Table, since: datetime, until: datetime) -> float:
        """Return the CPU that the commits of a range say they used themselves, those that a later one replaced included."""
        return self.core_seconds_of([table], since, until).get(table.id, 0.0)

    def core_seconds_of(
        self, tables: Sequence[Table], since: datetime, until: datetime
    ) -> dict[str, float]:
        """Return the same of each of several tables that used some."""
        sql = """
            SELECT "table", sum("value") / 1000 AS used FROM own
            WHERE measure = 'own_ms' AND "at" >= getvariable('since_') AND "at" < getvariable('until_')
            GROUP BY "table"
        """
        found = self._rows_of(sql, tables, since_=since, until_=until)
        return {name: float(str(row["used"])) for name, rows in found.items() for row in rows}

    def newest_of(self, tables: Sequence[Table]) -> dict[str, Batch]:
        """Return the last batch of each table that has one."""
        sql = """
            SELECT * FROM own QUALIFY version = max(version) OVER (PARTITION BY "table")
        """
        found = self._batches_of(sql, tables)
        return {name: batch for name, batches in found.items() for batch in batches}

    def newest(self, table: Table) -> Batch | None:
        """Return a table's last batch."""
        return self.newest_of([table]).get(table.id)

    def schema_at(self, table: Table, version: int) -> str | None:
        """Return the fingerprint of a table's columns at a version; None where no batch is known up to it."""
        sql = """
            SELECT "schema" FROM own WHERE version <= getvariable('version_')
            ORDER BY version DESC LIMIT 1
        """
        return next((str(row["schema"]) for row in self._rows(sql, table, version_=version)), None)

    def committed_at(self, table: Table, version: int) -> datetime | None:
        """Return when a version of a table was committed."""
        sql = """
            SELECT min("at") AS "at" FROM own WHERE version = getvariable('version_')
        """
        (row,) = self._rows(sql, table, version_=version)
        return None if row["at"] is None else _moment(row["at"])

    def versions_into(self, table: Table, after: datetime, before: datetime) -> list[int]:
        """Return the versions that were committed after a time and have to do with rows of before another, oldest first.

        A request to forget may leave no file whose rows would say so.
        """
        return self.versions_into_of([(table, before)], after)[table.id]

    def versions_into_of(
        self, before: Sequence[tuple[Table, datetime]], after: datetime
    ) -> dict[str, list[int]]:
        """Return the same of several tables, each with its own time, by their names; by one query.

        Args:
            before: Tables, each with the time that rows are of before.
            after: The time after which the versions were committed.
        """
        ends = ", ".join(f"({literal(t.id)}, {literal(at)})" for t, at in before)
        sql = f"""
            , ends("table", before) AS (VALUES {ends})
            SELECT "table", version FROM own JOIN ends USING ("table") WHERE "at" > getvariable('after_')
            GROUP BY "table", version, before
            HAVING min(since) < before OR max(mode) = getvariable('mode_')
            ORDER BY version
        """  # noqa: S608  # names of tables and times, as literals
        found = self._rows_of(sql, [t for t, _ in before], after_=after, mode_=FORGET)
        return {name: [int(str(row["version"])) for row in rows] for name, rows in found.items()}

    def points(self, table: Table, measure: str, until: datetime) -> list[Point]:
        """Return the values of a measure batch by batch, for ``expected`` to learn from.

        Args:
            table: The table.
            measure: Its name; ``share:quarantined`` is that share of the rows read.
            until: The end of the search; later batches are ignored.
        """
        name = measure.removeprefix("share:")
        before = f"""
            , before AS (
                SELECT * FROM own
                WHERE "at" < getvariable('until_') AND "at" >= getvariable('until_') - INTERVAL '{MEMORY}'
                    AND measure IN ('read', 'opened', 'backfill', getvariable('name_'))
            )
        """  # noqa: S608  # constants of this module
        sql = f"""
            SELECT * FROM before WHERE version IN (
                SELECT DISTINCT version FROM before ORDER BY version DESC LIMIT {MOST})
        """  # noqa: S608  # as above
        found = self._batches_of(sql, [table], before=before, name_=name, until_=until)
        return points(found[table.id], measure)

    def _batches_of(
        self,
        sql: str,
        tables: Sequence[Table],
        *,
        by: str = "version",
        before: str = "",
        **values: str | int | datetime,
    ) -> dict[str, list[Batch]]:
        """Return the batches, or the hours, of which a query finds the figures; DuckDB puts those of each together, in a tenth of the time."""
        together = f"""
            {before}
            SELECT
                "table", max(version) AS version, arg_max(mode, version) AS mode, arg_max(batch, version) AS batch,
                arg_max("at", version) AS "at", min(since) AS since, max("until") AS "until",
                list(measure ORDER BY measure) AS measures, list("value" ORDER BY measure) AS figures, any_value(note) AS note,
                arg_max(rules, version) AS rules, arg_max("schema", version) AS "schema"
            FROM ({sql}) GROUP BY "table", "{by}" ORDER BY "{by}"
        """  # noqa: S608  # queries of this module
        found = self._rows_of(together, tables, **values)
        return {name: [_batch(row) for row in rows] for name, rows in found.items()}

    def _rows(
        self, sql: str, table: Table, **values: str | int | datetime
    ) -> list[dict[str, object]]:
        return self._asked(sql, [table], values)

    def _rows_of(
        self, sql: str, tables: Sequence[Table], **values: str | int | datetime
    ) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {table.id: [] for table in tables}
        for row in self._asked(sql, tables, values) if tables else ():
            found[str(row["table"])].append(row)
        return found

    def _asked(
        self, sql: str, tables: Sequence[Table], values: Mapping[str, str | int | datetime]
    ) -> list[dict[str, object]]:
        """Return the rows of a query, which finds the figures of tables since each was last created in ``own``."""
        logs = ((table.id, table_id(self._lake.table(table))) for table in tables)
        known = ", ".join(f"({literal(name)}, {literal(log)})" for name, log in logs)
        own = f"""
            WITH known("table", log) AS (VALUES {known}),
            own AS (SELECT * FROM history JOIN known USING ("table", log))
        """  # noqa: S608  # names of tables, as literals
        return self._table.named(own + sql, **values)


def _size(rows: Sequence[Mapping[str, object]]) -> int:
    return sum(int(str(row["rows"])) for row in rows)


def _packed(tables: Sequence[Table], sizes: Mapping[str, int]) -> Iterator[list[Table]]:
    """Yield tables whose figures are read together, in their order."""
    some, size = list[Table](), 0
    for table in tables:
        if some and size + sizes[table.id] > AT_ONCE:
            yield some
            some, size = [], 0
        some.append(table)
        size += sizes[table.id]
    if some:
        yield some


def points(batches: Sequence[Batch], measure: str) -> list[Point]:
    """Return a measure of batches, or of hours, as points to learn from; a share only where rows were read."""
    return [
        Point(batch.at, batch.value(measure), batch.is_believed)
        for batch in batches
        if batch.values.get("read", 0.0) > 0 or not measure.startswith("share:")
    ]


def _batch(row: Mapping[str, Any]) -> Batch:
    since, until = (
        None if row[name] is None else _moment(row[name]) for name in ("since", "until")
    )
    return Batch(
        table=row["table"],
        version=row["version"],
        mode=row["mode"],
        batch=row["batch"],
        at=_moment(row["at"]),
        since=since,
        until=until,
        values=dict(zip(row["measures"], row["figures"], strict=True)),
        opened=row["note"],
        rules=str(row["rules"]),
        schema=str(row["schema"]),
    )


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is no moment")
    return value


# Find changes: a volume or a share outside its range, other columns or rules than before.
#
# A mark is a reason to look, not a verdict: a planned launch and a broken sender look alike from here.


VOLUME, SHARE, COLUMNS, RULES = "volume", "share", "columns", "rules"
LEAST = {VOLUME: 1.0, SHARE: 0.005}
"""The distance from the median within which a volume, in rows, and a share are always usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A change that an operator may want to know.

    Args:
        at: The time of the commit, or the start of the hour.
        version: The table's version.
        what: A volume, a share, the columns or the rules.
        measure: The name of the figure.
        value: Its value.
        usual: Its usual range.
    """

    at: datetime
    version: int
    what: str
    measure: str
    value: float | None = None
    usual: Range | None = None

    @property
    def said(self) -> str:
        """Return the mark as a phrase."""
        if self.usual is None or self.value is None:
            return f"{self.what} changed"
        if self.what == VOLUME:
            return (
                f"{self.value:,.0f} rows read, usually {self.usual.low:,.0f} to "
                f"{self.usual.high:,.0f}"
            )
        name = self.measure.removeprefix("share:").removeprefix("broke:")
        return f"{self.value:.1%} {name}, usually {self.usual.low:.1%} to {self.usual.high:.1%}"


def marks(batches: Sequence[Batch], before: Sequence[Batch] = ()) -> list[Mark]:
    """Return the changes in batches, or in hours, of one table.

    Args:
        batches: The batches to check, oldest first.
        before: The batches before them, to learn from.
    """
    every = [*before, *batches]
    memories = {VOLUME: {"read": Memory()}, SHARE: {name: Memory() for name in _shares(every)}}
    found = []
    for place, batch in enumerate(every):
        if place >= len(before):
            found += [*_figures(memories, batch), *_fingerprints(every[:place], batch)]
        for kind in memories.values():
            for measure, memory in kind.items():
                for point in points([batch], measure):
                    memory.add(point)
    return found


def _shares(batches: Sequence[Batch]) -> list[str]:
    """Return the shares to check: rows held back, copies, and rows that break a rule."""
    rules = {name for batch in batches for name in batch.values if name.startswith("broke:")}
    return [f"share:{name}" for name in ("quarantined", "duplicates", *sorted(rules))]


def _figures(memories: Mapping[str, Mapping[str, Memory]], batch: Batch) -> Iterator[Mark]:
    if batch.values.get("backfill") or batch.values.get("replaced"):
        return  # its figures are those of a range or of the whole table, not of new rows
    for what, kind in memories.items():
        for measure, memory in kind.items():
            usual = memory.expected(batch.at, least=LEAST[what])
            for point in points([batch], measure):
                if usual is not None and point.value not in usual:
                    yield Mark(
                        at=batch.at,
                        version=batch.version,
                        what=what,
                        measure=measure,
                        value=point.value,
                        usual=usual,
                    )


def _fingerprints(before: Sequence[Batch], batch: Batch) -> Iterator[Mark]:
    for what, name in ((COLUMNS, "schema"), (RULES, "rules")):
        known = next((getattr(b, name) for b in reversed(before) if getattr(b, name)), "")
        today = getattr(batch, name)
        if known and today and known != today:
            yield Mark(at=batch.at, version=batch.version, what=what, measure=name)
