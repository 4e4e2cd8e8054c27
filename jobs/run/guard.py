"""Asking Great Expectations about a batch before it is committed, by what was counted anyway.

The rows of a batch are read once, grouped by what they break: that says how many rows each rule, and how many the
ledger, has to count, in the same execution for one rule and for fifty.
"""

import hashlib
import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.core.verdict import WARNED, own_columns
from jobs.run import gates
from jobs.run.gates import GateShutError, Shut, Where
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.shelf import EPOCH, MICROSECOND
from quality.expectations import UNREAD, Counts, Finding, of_counters
from quality.rules import fingerprint

SAMPLES = 5
HIDDEN = "(hidden)"
STANDING = "recomputed to be compared"


@dataclass(slots=True)
class Judged:
    """A batch by what its rows break.

    Args:
        good: Believed rows.
        held: The others, by the reason that they are accounted under.
        broke: Rows by every rule or reason that they break.
        newest: The newest event time among the believed ones.
    """

    good: int = 0
    held: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.good + self.held.total()


def counted(rows: DataFrame, table: Table) -> Judged:
    """Count judged rows by what they break, in one execution however many rules there are."""
    by = ["_reasons", *([WARNED] if WARNED in rows.columns else [])]
    newest = F.unix_micros(F.max(str(table.event_at))).alias("newest")
    found, latest = Judged(), 0
    for group in rows.groupBy(*by).agg(F.count(F.lit(1)).alias("n"), newest).collect():
        reasons = group["_reasons"]
        if reasons:
            found.held[reasons[0]] += group["n"]
        else:
            found.good += group["n"]
            latest = max(latest, group["newest"] or 0)
        for name in {*(reasons or ()), *((group[WARNED] if WARNED in by else None) or ())}:
            found.broke[name] += group["n"]
    if found.good:
        found.newest = EPOCH + latest * MICROSECOND
    return found


@dataclass
class Guard:
    """Stands before the commits of one table.

    Args:
        table: Which.
        lake: Where.
        clock: Says when.
    """

    table: Table
    lake: Lake
    clock: Callable[[], datetime]
    _columns: str = field(default="", init=False)

    def admit(self, entry: Entry, found: Judged, rows: DataFrame) -> Entry:
        """Let a batch pass, and add to its entry what was found.

        Raises:
            GateShutError: The batch is not believed, and nobody opened the gate for it.
        """
        told = replace(
            entry,
            broke=dict(found.broke),
            rules=fingerprint(self.table.rules),
            contract=self._contract(rows),
            newest=found.newest.isoformat() if found.newest else None,
        )
        if not found.rows:
            return told
        findings = [each for each in self._findings(told, found) if not each.holds]
        told = replace(told, failed=tuple(each.name for each in findings))
        critical = [each for each in findings if each.is_critical]
        if not critical:
            return told
        why = self._opened(told)
        if why is None:
            raise GateShutError.before(self._shut(told, found, critical, rows))
        return replace(told, opened=why)

    def passed(self) -> None:
        """Take the note down when the batch is committed."""
        gates.clear(self.table, self.lake)

    @cached_property
    def _suite(self) -> Any:  # noqa: ANN401  # its import takes seconds, and many runs have no batch
        expected = of_counters(self.table.rules, self.table.expects)
        return importlib.import_module("quality.suite").Suite(self.table.id, expected)

    def _contract(self, rows: DataFrame) -> str:
        if not self._columns:
            kinds = rows.select(*own_columns(rows)).schema.simpleString()
            self._columns = hashlib.sha256(kinds.encode()).hexdigest()[:12]
        return self._columns

    def _findings(self, entry: Entry, found: Judged) -> tuple[Finding, ...]:
        unread = sum(found.broke[why] for why in UNREAD)
        figures = {
            "rows": float(found.rows),
            "unread": unread / found.rows,
            "refused_by_state": float(entry.dropped_by_watermark),
        }
        if found.newest is not None:
            figures["minutes_behind"] = (self.clock() - found.newest).total_seconds() / 60
        counts = Counts(rows=found.rows, broke=found.broke, figures=figures)
        findings: tuple[Finding, ...] = self._suite.of_counts(counts)
        return findings

    def _opened(self, entry: Entry) -> str | None:
        """Return why the gate stands open for a batch."""
        if gates.stands_open(self.lake):
            return STANDING
        known = gates.read(self.table, self.lake)
        is_this = known is not None and known.is_of(entry.stream, entry.batch)
        return known.opened if known is not None and is_this else None

    def _shut(
        self, entry: Entry, found: Judged, critical: Sequence[Finding], rows: DataFrame
    ) -> Shut:
        shut = Shut(
            table=self.table.id,
            where=Where.BEFORE,
            stream=entry.stream,
            batch=entry.batch,
            versions={name: list(ends) for name, ends in entry.versions.items()},
            rows=found.rows,
            at=self.clock().isoformat(timespec="seconds"),
            findings=gates.findings_told(critical),
            samples={each.name: self._samples(rows, each.name) for each in critical if each.failed},
        )
        gates.write(shut, self.table, self.lake)
        return shut

    def _samples(self, rows: DataFrame, rule: str) -> list[dict[str, Any]]:
        """Return some rows that break a rule; an execution, but of a batch that goes no further."""
        breaks = F.array_contains("_reasons", rule)
        if WARNED in rows.columns:
            breaks |= F.array_contains(WARNED, rule)
        own = own_columns(rows)
        found = rows.where(breaks).select(*PLACE, *own).limit(SAMPLES).collect()
        hidden = dict.fromkeys(self.table.sensitive, HIDDEN)
        return [
            {name: hidden.get(name, _plain(value)) for name, value in row.asDict().items()}
            for row in found
        ]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else str(value)
