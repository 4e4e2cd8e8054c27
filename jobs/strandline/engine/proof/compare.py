"""Rows held against rows: the tables of two lakes compared, row for row, and the published rows of one audited.

Silver, the held rows of the quarantine, and gold are compared as bags of rows: a row that one side has twice and the
other once is a difference. Floats are not compared because there are none. Bronze is left out: how and when Kafka's
records were cut into commits is no property of the data.

An audit looks for what counters cannot show. It checks the rules again, on all rows or on a range, and what only the rows can
show: no key is there twice, references exist, the number of rows agrees with the ledger, and the table's own expectations hold.
All of it is one aggregate over one scan (quality/strandline_quality/suite.py); if a sum must agree with the source, the source's
rows are counted too.

The result is kept beside the table. A critical finding shuts the gate behind the rows: their readers stop before the
next batch. An audit without one opens the gate again.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeAlias, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.declared import refuse_unsearchable
from strandline.core.errors import DefinitionError
from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table, Upserted, Windowed
from strandline.core.topic import ITEM, PLACE
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.balance_sheet import read_until, readable_at, rows_until
from strandline.engine.accounting.gate_files import READ_AS_IT_WAS, Shut, Where
from strandline.engine.accounting.held_records import State, offer
from strandline.engine.flow.function_plan import hidden
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.duckdb_table import Duck, scan, spilling
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.log_actions import changes_rows, files_between
from strandline.engine.lake.place import Place
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import led
from strandline_quality.expectations import Expectation, Finding, Share, Within, shares
from strandline_quality.judge import judge
from strandline_quality.mask import mask_value
from strandline_quality.rules import Severity

# Find the rows in which two bags of rows differ, inside DuckDB, in memory that does not grow with the bags.
#
# Each row has two hashes of 64 bits. Their sums are compared for each of some thousand groups. Only in a group whose sum
# or count differs are rows compared one by one, by their hashes, and only the few rows that are shown are read in full.
# Hashes are hashed again before they are added: DuckDB makes a row's hash from its columns' by an exclusive or, so two
# rows that had exchanged a value had the same sum once in a hundred million times.
# A list, a struct or a map is hashed as text, because DuckDB gives NULL and the empty list, or ``[[1], [2]]`` and
# ``[[1, 2]]``, one hash.
#
# Measured side by side with two Arrow tables and EXCEPT ALL, 5 million rows of nine columns on each side that differ in
# two rows: 6.3 GB of memory in Python and 210 s before, 0.3 GB and 15 s now; where every row differs, 0.9 GB and 25 s.
# On a lake's silver with what it holds back, 4.85 million rows: 5.2 GB and 267 s before, 0.27 GB and 27 s now, and of
# 0.33 million rows 0.68 GB before, 0.26 GB now (``python -m tests.benchmarks verify`` weighs a whole verification).


SAMPLES = 3
GROUPS = 4096
SIDES = ("l", "r")
UNEQUAL = f"getvariable('unequal')[CAST(1 + h % {GROUPS} AS BIGINT)]"
"""The condition that a row's group differs. It is no join, because DuckDB may keep a join's rows and not its groups."""
NESTED = ("STRUCT", "MAP", "UNION", "VARIANT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The rows that one of two bags has and the other has not.

    Args:
        rows: The number of rows of each side.
        only: How many of them the other side has not.
        changed: How many keys have such rows on both sides.
        samples: Some such rows of each side.
    """

    rows: tuple[int, int]
    only: tuple[int, int]
    changed: int
    samples: tuple[list[tuple[object, ...]], list[tuple[object, ...]]]


def difference(duck: Duck, columns: Sequence[str], key: Sequence[str]) -> Difference:
    """Compare the views ``l`` and ``r``.

    Args:
        duck: The connection that has the views.
        columns: The compared columns; both views have them.
        key: Those of them that identify a row; empty when unknown.
    """
    _number(duck, columns, key)
    rows = _count_groups(duck)
    surplus = "CREATE TEMP TABLE surplus AS SELECT k, h, g, sum(n) AS n FROM (%s) GROUP BY ALL HAVING sum(n) <> 0"
    parts = (
        f"SELECT k, h, g, {sign} AS n FROM numbered_{side} WHERE {UNEQUAL}"  # noqa: S608  # no user's text
        for side, sign in zip(SIDES, (1, -1), strict=True)
    )
    duck.execute(surplus % " UNION ALL ".join(parts))
    only = tuple(_one(duck, f"SELECT sum(abs(n)) FROM surplus WHERE n {of} 0") for of in "><")  # noqa: S608  # as above
    both = "SELECT k FROM surplus GROUP BY k HAVING min(n) < 0 AND max(n) > 0"
    return Difference(
        rows=rows,
        only=(only[0], only[1]),
        changed=_one(duck, f"SELECT count(*) FROM ({both})") if key else 0,  # noqa: S608  # as above
        samples=(_samples(duck, "l", ">", columns), _samples(duck, "r", "<", columns)),
    )


def _number(duck: Duck, columns: Sequence[str], key: Sequence[str]) -> None:
    """Create views of both sides with the hashes of each row and of its key, after a cast to common types."""
    names = ", ".join(f'"{column}"' for column in columns)
    both = duck.execute(f"DESCRIBE SELECT {names} FROM l UNION ALL SELECT {names} FROM r")  # noqa: S608  # as above
    values = {str(row[0]): _value(str(row[0]), str(row[1])) for row in both.fetchall()}
    whole = ", ".join(values.values())
    back = ", ".join(reversed(values.values()))
    part = ", ".join(values[column] for column in key) or "0"
    for side in SIDES:
        duck.execute(
            f"CREATE VIEW numbered_{side} AS SELECT {names}, "  # noqa: S608  # as above
            f"hash({part}) AS k, hash({whole}) AS h, hash('g', {back}) AS g FROM {side}"
        )


def _value(column: str, kind: str) -> str:
    value = f'CAST("{column}" AS {kind})'
    is_nested = kind.endswith("]") or kind.startswith(NESTED)
    return f"CAST({value} AS VARCHAR)" if is_nested else value


def _count_groups(duck: Duck) -> tuple[int, int]:
    """Mark the groups that differ between the sides, and return the number of rows of each side."""
    for side in SIDES:
        duck.execute(
            f"CREATE TEMP TABLE groups_{side} AS SELECT h % {GROUPS} AS place, count(*) AS n, "  # noqa: S608  # as above
            f"sum(hash(h)) AS sum_h, sum(hash(g)) AS sum_g FROM numbered_{side} GROUP BY place"
        )
    duck.execute(
        "SET VARIABLE unequal = (SELECT list(l IS DISTINCT FROM r ORDER BY place) "  # noqa: S608  # as above
        f"FROM (SELECT unnest(range({GROUPS})) AS place) "
        "LEFT JOIN groups_l AS l USING (place) LEFT JOIN groups_r AS r USING (place))"
    )
    left, right = (_one(duck, f"SELECT sum(n) FROM groups_{side}") for side in SIDES)  # noqa: S608  # as above
    return left, right


def _samples(duck: Duck, side: str, sign: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Return a few differing rows of one side; the order by key makes the sides show the same keys if they share some."""
    chosen = f"SELECT h, g FROM surplus WHERE n {sign} 0 ORDER BY k, h LIMIT {SAMPLES}"  # noqa: S608  # as above
    wanted = [f"h = {h} AND g = {g}" for h, g in duck.execute(chosen).fetchall()]
    if not wanted:
        return []
    names = ", ".join(f'"{column}"' for column in columns)
    rows = f"SELECT DISTINCT {names} FROM numbered_{side} WHERE {' OR '.join(wanted)}"  # noqa: S608  # as above
    return duck.execute(f"{rows} ORDER BY ALL").fetchall()


def _one(duck: Duck, question: str) -> int:
    row = duck.execute(question).fetchone()
    return int(row[0] or 0) if row else 0


Range: TypeAlias = tuple[datetime, datetime]
"""The start of a range of event time, and its exclusive end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What retention has left of a table that was computed from more.

    Args:
        events: Rows of an earlier event time are not compared.
        arrivals: Records of the quarantine that arrived earlier are not compared.
    """

    events: datetime | None = None
    arrivals: datetime | None = None


ALL = Kept()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between two versions of a table.

    Args:
        table: Its name, or that of its quarantine.
        left_rows: The number of rows on the left.
        right_rows: The number of rows on the right.
        only_left: Rows that the right side has not.
        only_right: Rows that the left side has not.
        changed: How many keys have differing rows on both sides.
        apart: Columns that only one side has; the others were compared.
        samples: Some of the differing rows.
    """

    table: str
    left_rows: int
    right_rows: int
    only_left: int
    only_right: int
    changed: int
    apart: tuple[str, ...]
    samples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Return whether both sides have the same rows."""
        return self.only_left == 0 and self.only_right == 0 and not self.apart


def compare(  # noqa: PLR0913  # two sides, and their names
    table: Table,
    left: Lake,
    right: Lake,
    *,
    at: Sequence[int] | None = None,
    sides: tuple[str, str] = ("in the first", "in the second"),
    may_differ: bool = False,
    span: Range | None = None,
    kept: Kept = ALL,
    without: Collection[str] = (),
) -> list[Comparison]:
    """Compare a table, and its quarantine if it has one.

    Args:
        table: The table.
        left: One lake.
        right: The other lake.
        at: The versions of the left table's books (``Lake.books``); the newest when absent.
        sides: The names of the sides in samples.
        may_differ: Whether the two may have different columns.
        span: The range of event time to compare; a quarantined row without event time counts by its arrival.
        kept: What retention has left.
        without: Columns that are left out, such as the place in Kafka where one lake was filled from files.

    Raises:
        DefinitionError: One of the lakes has no such table, or the columns differ although they may not.
    """
    own, quarantine, resolutions, *_ = (*(at or ()), None, None, None)
    with spilling() as duck:
        for side, lake, version in (("l", left, own), ("r", right, None)):
            _offer_rows(duck, side, table, lake, version)
        inside = within(f'"{table.event_at}"', span, kept.events)
        secret = hidden(table, left) | hidden(table, right)
        results = [compared_views(table.id, table.row_key, duck, sides, inside, secret, without)]
    if isinstance(table, Judged):
        with spilling() as duck:
            for side, lake, versions in (
                ("l", left, (quarantine, resolutions)),
                ("r", right, (None, None)),
            ):
                _offer_held(duck, side, table, lake, versions)
            moment = within("coalesce(event_at, _arrived_at)", span)
            moment += f" AND {within('_arrived_at', None, kept.arrivals)}"
            name = f"quarantine.{table.name}"
            results.append(compared_views(name, PLACE, duck, sides, moment, secret, without))
    for one in results:
        if one.apart and not may_differ:
            raise _apart(one.table, one.apart)
    return results


def _offer_rows(duck: Duck, side: str, table: Table, lake: Lake, version: int | None) -> None:
    """Create a side's view of a table's rows."""
    path = lake.table(table)
    _refuse_missing(table.id, path)
    scan(duck, f"all_{side}", path, version)


def _offer_held(
    duck: Duck,
    side: str,
    table: Table,
    lake: Lake,
    at: tuple[int | None, int | None],
) -> None:
    """Create a side's view of the rows that a quarantine holds, without the released ones."""
    _refuse_missing(f"quarantine.{table.name}", lake.quarantine(table))
    offer(duck, f"records_{side}", table, lake, at, scan)
    names = {row[0] for row in duck.execute(f"DESCRIBE records_{side}").fetchall()}
    # A table that never held an item by itself has no place for it, and one that did has none where a record is held whole.
    added = "" if ITEM in names else f", CAST(NULL AS INTEGER) AS {ITEM}"
    duck.execute(
        f"CREATE VIEW all_{side} AS SELECT * EXCLUDE (_state){added} FROM records_{side} "  # noqa: S608  # no user's text
        f"WHERE _state <> '{State.CLOSED}'"
    )


def _refuse_missing(name: str, path: Place) -> None:
    if not is_table(path):
        raise DefinitionError(
            f"there is no table at {path}", hint="make it first: `strandline run`.", table=name
        )


def within(moment: str, span: Range | None, first: datetime | None = None) -> str:
    """Return the condition that a row is in a range, and not before a first moment."""
    kept = "TRUE" if first is None else f"{moment} >= TIMESTAMPTZ '{first.isoformat()}'"
    if span is None:
        return kept
    since, until = (f"TIMESTAMPTZ '{at.isoformat()}'" for at in span)
    return f"{moment} >= {since} AND {moment} < {until} AND {kept}"


def compared_views(  # noqa: PLR0913, PLR0917  # the table, the names of the sides, and the masked columns
    name: str,
    key: Sequence[str],
    duck: Duck,
    sides: tuple[str, str],
    within: str,
    secret: Collection[str],
    without: Collection[str],
) -> Comparison:
    """Compare the views ``all_l`` and ``all_r``, where a condition holds."""
    for side in SIDES:
        duck.execute(f"CREATE VIEW {side} AS SELECT * FROM all_{side} WHERE {within}")  # noqa: S608  # no user's text
    names, others = (
        [str(row[0]) for row in duck.execute(f"DESCRIBE {side}").fetchall()] for side in SIDES
    )
    apart = tuple(sorted({*names} ^ {*others}))
    shared = [column for column in names if column in others and column not in without]
    if not shared:
        raise _apart(name, apart)
    differing = difference(duck, shared, key if {*key} <= {*shared} else ())
    return Comparison(
        table=name,
        left_rows=differing.rows[0],
        right_rows=differing.rows[1],
        only_left=differing.only[0],
        only_right=differing.only[1],
        changed=differing.changed,
        apart=apart,
        samples=tuple(
            f"only {side}: {_shown(row, shared, secret)}"
            for side, rows in zip(sides, differing.samples, strict=True)
            for row in rows
        ),
    )


def _shown(
    row: Sequence[object], columns: Sequence[str], secret: Collection[str]
) -> tuple[object, ...]:
    """Return a row with its sensitive values masked."""
    return tuple(
        mask_value(value) if column in secret else value
        for column, value in zip(columns, row, strict=True)
    )


def _apart(name: str, columns: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"{name} has different columns in the two lakes: {', '.join(columns)}",
        hint="run both with the same version of the code.",
        table=name,
    )


COPIES = "copies_of_a_key"
WHO = {
    "count": "as many rows as the ledger says were written",
    "sum": "made of as many rows as its source holds up to the newest window",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit.

    Args:
        table: The table's one name.
        version: The audited version.
        at: The time of the audit.
        since: The start of the audited range of event time; None when all rows were audited.
        until: Its end.
        findings: The result of each expectation.
    """

    table: str
    version: int
    at: str
    since: str | None
    until: str | None
    findings: tuple[Finding, ...]

    @property
    def critical(self) -> tuple[Finding, ...]:
        """Return the findings that make the rows unfit for their readers."""
        return tuple(each for each in self.findings if each.is_critical)


def audit(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    clock: Callable[[], datetime],
    span: Span | None = None,
) -> Audit:
    """Audit a table's rows, keep the result, and shut or open the gate behind them.

    Args:
        spark: The session.
        table: The table.
        lake: The lake.
        clock: Returns the present time.
        span: The range of event time to audit; all rows when absent.

    Raises:
        DefinitionError: A rule of the table cannot be asked.
    """
    refuse_unsearchable(table, table.rules)
    version = latest_version(lake.table(table))
    rows = rows_at(spark, lake.table(table), version)
    if span is not None:
        rows = rows.where(span.holds(str(table.event_at)))
    totals = {} if span else _totals(spark, table, lake, version)
    result = Audit(
        table=table.id,
        version=version,
        at=clock().isoformat(timespec="seconds"),
        since=span.since.isoformat() if span else None,
        until=span.until.isoformat() if span else None,
        findings=judge(table.id, expected(table, totals)).of_rows(
            _with_known(spark, table, lake, rows)
        ),
    )
    lake.audit(table).put(json.dumps(asdict(result), indent=1))
    _gate(result, table, lake)
    return result


def expected(table: Table, totals: Mapping[str, int] | None = None) -> tuple[Expectation, ...]:
    """Return the expectations on a table's present rows.

    Args:
        table: The table.
        totals: Totals that the ledger or the source has and the rows must meet exactly, by the SQL that sums the rows.
    """
    # By silver's definition a copy is the same key at the same time.
    names = dict.fromkeys((*table.row_key, *([table.event_at] if table.event_at else [])))
    key = ", ".join(f"`{name}`" for name in names)
    rules = table.rules
    if isinstance(table, Judged) and table.rows:  # rows lack the list, of which each batch is asked
        rules = tuple(r for r in rules if not re.search(rf"\b{re.escape(table.rows)}\b", r.holds))
    own: list[Expectation] = [*shares(rules)]
    own += [each for each in table.expects if each.aggregate is not None]
    own += [
        Share(
            name=_refers(column),
            predicate=f"(`{column}` IS NULL OR `{_known(column)}` IS NOT NULL)",
            allowed=0.0,
            few=0,
            severity=Severity.WARNING,
            about=f"each {column} is in {source.id}",
        )
        for column, source, _ in table.references
    ]
    own.append(
        Within(
            name=COPIES,
            aggregate=f"count(*) - count(DISTINCT struct({key}))",
            high=0,
            severity=Severity.CRITICAL,
            about="no key is there twice at one event time",
        )
    )
    own += [
        Within(
            name=f"missing:{name}",
            aggregate=f"count_if(`{name}` IS NULL)",
            high=0,
            severity=Severity.CRITICAL,
            about="no part of the key is NULL, unless the table allows it",
        )
        for name in _never_null(table)
    ]
    own += [
        Within(
            name=f"{aggregate} as others say",
            aggregate=aggregate,
            low=total,
            high=total,
            severity=Severity.CRITICAL,
            about=WHO[aggregate.partition("(")[0]],
        )
        for aggregate, total in (totals or {}).items()
    ]
    return tuple(own)


def _never_null(table: Table) -> tuple[str, ...]:
    """Return the columns of the key that an audit must look at; a judged table holds rows without one back."""
    match table:
        case Windowed() | Appended() | Upserted() | Recomputed():
            return tuple(name for name in table.key if name not in table.key_null_ok)
        case Ingested() | Judged():
            return ()
        case _:
            assert_never(table)


def kept(table: Table, lake: Lake) -> Audit | None:
    """Return the last audit of a table."""
    text = lake.audit(table).text()
    if text is None:
        return None
    record = json.loads(text)
    findings = tuple(
        Finding(**{**each, "severity": Severity(each["severity"])}) for each in record["findings"]
    )
    return Audit(**{**record, "findings": findings})


def _totals(spark: SparkSession, table: Table, lake: Lake, version: int) -> dict[str, int]:
    """Return the totals that a table's rows must meet, from its ledger and its source."""
    totals = {}
    if not isinstance(table, Upserted | Recomputed):
        totals["count(*)"] = rows_until(lake.table(table), version)
    if isinstance(table, Windowed) and table.source_count:
        totals[f"sum({table.source_count})"] = rows_in_windows(spark, table, lake, version)
    return totals


def rows_in_windows(spark: SparkSession, table: Windowed, lake: Lake, version: int) -> int:
    """Return how many rows of its source a table has read that are older than the end of its newest window."""
    (source,) = table.upstream
    rows = rows_at(spark, lake.table(table), version)
    newest = F.broadcast(rows.agg(F.max(table.closes_at).alias("_newest")))
    there = rows_at(spark, lake.table(source), readable_at(table, source, lake))
    is_in = F.col(str(source.event_at)) < F.col("_newest")
    return there.crossJoin(newest).where(is_in).count()


def _with_known(spark: SparkSession, table: Table, lake: Lake, rows: DataFrame) -> DataFrame:
    """Join to each reference the key that it names, or NULL if that does not exist; in the one scan of the rows."""
    for column, source, name in table.references:
        there = rows_at(spark, lake.table(source), latest_version(lake.table(source)))
        known = there.select(F.col(name).alias(_known(column))).distinct()
        rows = rows.join(F.broadcast(known), F.col(column) == F.col(_known(column)), "left_outer")
    return rows


def _gate(result: Audit, table: Table, lake: Lake) -> None:
    """Shut the gate behind the rows, or open it when they are as expected again."""
    known = gate_files.read(table, lake, Where.BEHIND)
    if not result.critical:
        if known is not None and result.since is None:
            stale = tuple(_stale(table, lake)) if known.opened is None else ()
            if stale:
                gate_files.write(_shut(result, stale), table, lake)
            else:
                gate_files.clear(table, lake, Where.BEHIND)
    elif known is None or not known.accepts(result.critical):
        gate_files.write(_shut(result, result.critical), table, lake)


def _stale(table: Table, lake: Lake) -> Iterator[Finding]:
    """Yield a finding for each table whose stream would read rows as they were before their repair.

    A stream reads appended rows and skips commits that remove rows. So a stream that waited at the gate during the
    repair would read the bad rows and not their removal; its table must be rebuilt.
    """
    path = lake.table(table)
    latest = latest_version(path)
    for other in led(table, lake):
        first = read_until(other, table, lake) + 1
        if _removes_appended(path, first, latest):
            yield Finding(
                name=f"{READ_AS_IT_WAS}{other.id}",
                severity=Severity.CRITICAL,
                holds=False,
                says=f"{other.id} has not read from version {first} on, and its stream would read the rows as they "
                f"were before their repair; `strandline rebuild {other.id}`, promote it, and check again",
            )


def _shut(result: Audit, critical: Sequence[Finding]) -> Shut:
    return Shut(
        table=result.table,
        where=Where.BEHIND,
        stream="",
        batch=result.version,
        rows=max((each.rows for each in critical), default=0),
        at=result.at,
        findings=gate_files.as_json(critical),
    )


def _known(column: str) -> str:
    return f"_known_{column}"


def _refers(column: str) -> str:
    return f"unknown:{column}"


def as_record(result: Audit) -> dict[str, Any]:
    """Return an audit for programs."""
    return {**asdict(result), "believed": not result.critical}


def _removes_appended(path: Place, first: int, last: int) -> bool:
    """Return whether a version removed a row that another of these versions appended."""
    appended: set[str] = set()
    for version in range(first, last + 1):
        came, went = files_between(path, version, version)
        if not went or (went <= appended and not changes_rows(path, version)):
            appended |= came  # the second is their rows put together
        elif went & appended and changes_rows(path, version):
            return True
    return False
