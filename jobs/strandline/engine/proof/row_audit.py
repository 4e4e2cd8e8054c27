"""Audit the published rows of a table for what counters cannot show.

An audit checks the rules again, on all rows or on a range, and what only the rows can show: no key is there twice,
references exist, the number of rows agrees with the ledger, and the table's own expectations hold. All of it is one
aggregate over one scan (quality/strandline_quality/gx.py); if a sum must agree with the source, the source's rows are counted too.

The result is kept beside the table. A critical finding shuts the gate behind the rows: their readers stop before the
next batch. An audit without one opens the gate again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.declared import refuse_unsearchable
from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table, Upserted, Windowed
from strandline.engine.accounting.balance_sheet import read_until, readable_at, rows_until
from strandline.engine.gates import gate_files
from strandline.engine.gates.gate_files import READ_AS_IT_WAS, Shut, Where
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import changes_rows, files_between
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import led
from strandline_quality.expectations import Expectation, Finding, Share, Within, shares
from strandline_quality.judge.choice import judge
from strandline_quality.rules import Severity

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
