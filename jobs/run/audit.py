"""A look at the rows themselves: what counters cannot show, asked of what is published.

The rules again, of all rows or of a range, and with them what only rows can say: that no key is there twice, that what
they refer to exists, that there are as many of them as the ledger says, and whatever the table expects of the whole.
All of it is one aggregate over one scan (quality/gx.py); where a sum must agree with the source, that is counted too.

What it finds is kept beside the table. A critical finding shuts the gate behind the rows: who reads them stops before
the next batch. Finding nothing any more opens it again.
"""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.run import gates
from jobs.run.above import led
from jobs.run.balance import read_until, rows_until
from jobs.run.files import files_between
from jobs.run.gates import READ_AS_IT_WAS, Shut, Where
from jobs.run.lake import Lake
from jobs.run.ledger import is_passed_over, latest_version
from jobs.run.notes import put
from jobs.run.rows import rows_at
from jobs.run.span import Span
from quality.expectations import Expectation, Finding, Share, Within, shares
from quality.rules import Severity

COPIES = "copies_of_a_key"
WHO = {
    "count": "as many rows as the ledger says were written",
    "sum": "made of as many rows as its source holds up to the newest window",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a look at a table's rows found.

    Args:
        table: The table's one name.
        version: The version that was looked at.
        at: When.
        since: Of a range of event time, where it begins; all rows were looked at when absent.
        until: Where it ends.
        findings: What came of each expectation.
    """

    table: str
    version: int
    at: str
    since: str | None
    until: str | None
    findings: tuple[Finding, ...]

    @property
    def critical(self) -> tuple[Finding, ...]:
        """Return what must not be built upon."""
        return tuple(each for each in self.findings if each.is_critical)


def audit(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    clock: Callable[[], datetime],
    span: Span | None = None,
) -> Audit:
    """Look at a table's rows, keep what was found, and shut or open the gate behind them.

    Args:
        spark: The session.
        table: Which.
        lake: Where.
        clock: Says when.
        span: The range of event time to look at; all rows when absent.
    """
    version = latest_version(lake.table(table))
    rows = rows_at(spark, lake.table(table), version)
    if span is not None:
        rows = rows.where(span.holds(str(table.event_at)))
    totals = {} if span else _totals(spark, table, lake, version)
    suite = importlib.import_module("quality.suite").Suite(table.id, expected(table, totals))
    found = Audit(
        table=table.id,
        version=version,
        at=clock().isoformat(timespec="seconds"),
        since=span.since.isoformat() if span else None,
        until=span.until.isoformat() if span else None,
        findings=suite.of_rows(_with_known(spark, table, lake, rows)),
    )
    put(lake.audit(table), json.dumps(asdict(found), indent=1))
    _gate(found, table, lake)
    return found


def expected(table: Table, totals: Mapping[str, int] | None = None) -> tuple[Expectation, ...]:
    """Return what is expected of a table's rows as they stand.

    Args:
        table: Which.
        totals: Figures that must be met exactly, where others know them: by SQL over the rows.
    """
    # As silver says it: a copy is the same key at the same time.
    names = dict.fromkeys((*table.key, *([table.event_at] if table.event_at else [])))
    key = ", ".join(f"`{name}`" for name in names)
    own: list[Expectation] = [*shares(table.rules)]
    own += [each for each in table.expects if each.aggregate is not None]
    own += [
        Share(
            name=_refers(column),
            predicate=f"(`{column}` IS NULL OR `{_known(column)}` IS NOT NULL)",
            allowed=0.0,
            few=0,
            severity=Severity.WARNING,
            about=f"what {column} names is in {source.id}",
        )
        for column, source, _ in table.refers
    ]
    own.append(
        Within(
            name=COPIES,
            aggregate=f"count(*) - count(DISTINCT struct({key}))",
            high=0,
            severity=Severity.CRITICAL,
            about="no key is there twice at one time",
        )
    )
    own += [
        Within(
            name=f"missing:{name}",
            aggregate=f"count_if(`{name}` IS NULL)",
            high=0,
            severity=Severity.CRITICAL,
            about="a part of the key that the table does not say may be NULL",
        )
        for name in table.key
        if not table.judges
        and name not in table.key_null_ok  # a judging table holds such rows back
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


def kept(table: Table, lake: Lake) -> Audit | None:
    """Return what the last look at a table found."""
    try:
        told = json.loads(lake.audit(table).read_text())
    except FileNotFoundError:
        return None
    findings = tuple(
        Finding(**{**each, "severity": Severity(each["severity"])}) for each in told["findings"]
    )
    return Audit(**{**told, "findings": findings})


def _totals(spark: SparkSession, table: Table, lake: Lake, version: int) -> dict[str, int]:
    """Return what the ledger and the source say of a table's rows."""
    found = {}
    if not table.rewrites:
        found["count(*)"] = rows_until(lake.table(table), version)
    if table.counts and table.closes_at and not table.rewrites:
        (source,) = table.upstream
        rows = rows_at(spark, lake.table(table), version)
        newest = F.broadcast(rows.agg(F.max(table.closes_at).alias("_newest")))
        there = rows_at(spark, lake.table(source), _put_right_until(table, source, lake))
        is_in = F.col(str(source.event_at)) < F.col("_newest")
        found[f"sum({table.counts})"] = there.crossJoin(newest).where(is_in).count()
    return found


def _put_right_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the version of a source that a table speaks of: what its stream passed over came to it otherwise."""
    path, version = lake.table(source), read_until(table, source, lake)
    while version < latest_version(path) and is_passed_over(path, version + 1):
        version += 1
    return version


def _with_known(spark: SparkSession, table: Table, lake: Lake, rows: DataFrame) -> DataFrame:
    """Add for each reference whether what it names exists; in the one scan of the rows."""
    for column, source, name in table.refers:
        there = rows_at(spark, lake.table(source), latest_version(lake.table(source)))
        known = there.select(F.col(name).alias(_known(column))).distinct()
        rows = rows.join(F.broadcast(known), F.col(column) == F.col(_known(column)), "left_outer")
    return rows


def _gate(found: Audit, table: Table, lake: Lake) -> None:
    """Shut the gate behind the rows, or open it when they are as expected again."""
    known = gates.read(table, lake, Where.BEHIND)
    if not found.critical:
        if known is not None and found.since is None:
            stale = tuple(_stale(table, lake)) if known.opened is None else ()
            if stale:
                gates.write(_shut(found, stale), table, lake)
            else:
                gates.clear(table, lake, Where.BEHIND)
    elif known is None or not known.accepts(found.critical):
        gates.write(_shut(found, found.critical), table, lake)


def _stale(table: Table, lake: Lake) -> Iterator[Finding]:
    """Find the tables whose streams would read rows as they were before they were put right.

    A stream reads what was appended and passes over what takes rows away, so whoever waited at the gate while somebody
    put the rows right has to begin anew.
    """
    path = lake.table(table)
    latest = latest_version(path)
    for other in led(table, lake):
        first = read_until(other, table, lake) + 1
        each = [files_between(path, version, version) for version in range(first, latest + 1)]
        appended = {file for came, went in each if not went for file in came}
        if appended & {file for _, went in each for file in went}:
            yield Finding(
                name=f"{READ_AS_IT_WAS}{other.id}",
                severity=Severity.CRITICAL,
                holds=False,
                says=f"{other.id} has not read from version {first} on, and its stream would read the rows as they "
                f"were before they were put right; `strandline rebuild {other.id}`, promote it, and check again",
            )


def _shut(found: Audit, critical: Sequence[Finding]) -> Shut:
    return Shut(
        table=found.table,
        where=Where.BEHIND,
        stream="",
        batch=found.version,
        rows=max((each.rows for each in critical), default=0),
        at=found.at,
        findings=gates.told_of(critical),
    )


def _known(column: str) -> str:
    return f"_known_{column}"


def _refers(column: str) -> str:
    return f"unknown:{column}"


def told(found: Audit) -> dict[str, Any]:
    """Return an audit as programs read it."""
    return {**asdict(found), "believed": not found.critical}
