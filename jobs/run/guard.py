"""Asking Great Expectations about a batch before it is committed, by what was counted anyway.

The rows of a batch are read once, grouped by what they break: that says how many rows each rule, and how many the
ledger, has to count, in the same execution for one rule and for fifty.

A small batch is judged twice: by itself, and together with those before it (jobs/run/pooled.py).

The library is asked where a glance at the counters finds something, which says what the library would say
(tests/quality/test_suite.py compares both on random counters): its import costs each process 4 s of CPU on an idle
machine and 12 on a busy one, and a suite 50 ms a batch, for batches in which there is nothing to find.
"""

import hashlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.received import PLACE
from jobs.core.rescue import RESCUED
from jobs.core.table import Table
from jobs.core.verdict import WARNED, own_columns
from jobs.run import gates
from jobs.run.gates import GateShutError, Shut, Where
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, is_table
from jobs.run.pooled import Judged, Recent, proves
from jobs.run.shelf import EPOCH, MICROSECOND
from quality.expectations import (
    HELD_SHARE,
    UNREAD,
    VOLUME,
    Bounds,
    Counts,
    Expectation,
    Finding,
    fails,
    of_counters,
)
from quality.mask import mask_value
from quality.rules import fingerprint

SAMPLES = 5

STANDING = "recomputed to be compared"


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
        where: What it stands before: batches of the stream, or a range that is computed again.
    """

    table: Table
    lake: Lake
    clock: Callable[[], datetime]
    where: Where = Where.BEFORE
    _columns: str = field(default="", init=False)

    def admit(self, entry: Entry, found: Judged, rows: DataFrame, named: str = "") -> Entry:
        """Let a batch pass, and add to its entry what was found.

        Args:
            entry: The batch's.
            found: What its rows break.
            rows: The rows, of which some are shown where it does not pass.
            named: What the batch is called when it comes again; that of the entry when absent.

        Raises:
            GateShutError: The batch is not believed, and nobody opened the gate for it.
        """
        told = replace(
            entry,
            # Of a range all other figures are differences.
            broke=dict(found.broke) if self.where is Where.BEFORE else {},
            rules=fingerprint(self.table.rules),
            contract=self._contract(rows),
            newest=found.newest.isoformat() if found.newest else None,
        )
        if not found.rows and not told.dropped_by_watermark:
            return told
        findings = [each for each in self._findings(told, found) if not each.holds]
        told = replace(told, failed=tuple(each.name for each in findings))
        critical = [each for each in findings if each.is_critical]
        if not critical:
            self._recent.add(found)
            return told
        if gates.stands_open(self.lake):
            return replace(told, opened=STANDING)
        shut = self._shut(told, found, critical, named)
        known = gates.read(self.table, self.lake, self.where)
        if known is not None and known.lets_pass(shut):
            return replace(told, opened=known.opened)
        samples = {each.name: self._samples(rows, each.name) for each in critical if each.failed}
        shut = replace(shut, samples=samples)
        gates.write(shut, self.table, self.lake)
        raise GateShutError.before(shut)

    def passed(self, stream: str, batch: int) -> None:
        """Take the note down when the batch of which it speaks is committed."""
        known = gates.read(self.table, self.lake, self.where)
        if known is not None and known.is_of(stream, batch):
            gates.clear(self.table, self.lake, self.where)

    @cached_property
    def _expected(self) -> tuple[Expectation, ...]:
        return of_counters(self.table.rules, self.table.expects)

    @cached_property
    def _suite(self) -> Any:  # noqa: ANN401  # its import takes seconds
        return importlib.import_module("quality.suite").Suite(self.table.id, self._expected)

    @cached_property
    def _usual(self) -> Any:  # noqa: ANN401  # as above
        return importlib.import_module("jobs.run.usual").Usual(self.table, self.lake, self.clock)

    def _bounds(self, entry: Entry) -> Bounds:
        """Return what is usual of a stream's batch; a range, or everything at once, is none."""
        is_batch = self.where is Where.BEFORE and not entry.replaced
        # Without history nothing is usual, and what asks it is imported for nothing.
        bounds: Bounds = self._usual.bounds() if is_batch and is_table(self.lake.history) else {}
        return bounds

    def _contract(self, rows: DataFrame) -> str:
        if not self._columns:
            kinds = rows.select(*own_columns(rows)).schema.simpleString()
            self._columns = hashlib.sha256(kinds.encode()).hexdigest()[:12]
        return self._columns

    def _findings(self, entry: Entry, found: Judged) -> tuple[Finding, ...]:
        """Judge a batch by itself, and a small one together with those before it as well."""
        bounds = self._bounds(entry)
        alone = self._asked(self._counts(entry, found, found), bounds)
        pool = self._recent.with_(found)
        if pool is None:
            return alone
        together = self._asked(self._counts(entry, found, pool), bounds)
        own = [each for each in alone if not each.holds and proves(each, found)]
        return tuple({each.name: each for each in (*together, *own)}.values())

    def _counts(self, entry: Entry, found: Judged, pool: Judged) -> Counts:
        """Return a batch's own figures, and the shares of the rows with which it is judged."""
        rows, broke = pool.rows, pool.broke
        figures = {
            "unread": sum(broke[why] for why in UNREAD) / rows if rows else 0.0,
            "refused_by_state": float(entry.dropped_by_watermark),
        }
        if self.where is Where.BEFORE:
            figures["rows"] = float(found.rows)
        if entry.read:
            figures |= {VOLUME: float(entry.read), HELD_SHARE: found.held.total() / entry.read}
        if found.newest is not None and self.where is Where.BEFORE:
            figures["minutes_behind"] = (self.clock() - found.newest).total_seconds() / 60
        return Counts(rows=rows, broke=broke, figures=figures)

    def _asked(self, counts: Counts, bounds: Bounds) -> tuple[Finding, ...]:
        """Ask the library what it finds; nothing where a glance says that it finds nothing."""
        if not any(fails(each, counts, bounds) for each in self._expected):
            return ()
        findings: tuple[Finding, ...] = self._suite.of_counts(counts, bounds)
        return findings

    @cached_property
    def _recent(self) -> Recent:
        """Return the last batches that were believed; a range is judged without them."""
        if self.where is not Where.BEFORE:
            return Recent()
        return Recent.of(self.lake.table(self.table), fingerprint(self.table.rules))

    def _shut(self, entry: Entry, found: Judged, critical: Sequence[Finding], named: str) -> Shut:
        return Shut(
            table=self.table.id,
            where=self.where,
            stream=named or entry.stream,
            batch=entry.batch,
            versions={name: list(ends) for name, ends in entry.versions.items()},
            rows=found.rows,
            at=self.clock().isoformat(timespec="seconds"),
            findings=gates.told_of(critical),
        )

    def _samples(self, rows: DataFrame, rule: str) -> list[dict[str, Any]]:
        """Return some rows that break a rule; an execution, but of a batch that goes no further."""
        breaks = F.array_contains("_reasons", rule)
        if WARNED in rows.columns:
            breaks = F.coalesce(breaks, F.lit(False)) | F.array_contains(WARNED, rule)
        found = rows.where(breaks).select(*PLACE, *own_columns(rows)).limit(SAMPLES).collect()
        secret = {*self.table.secret, *([RESCUED] if self.table.secret else ())}
        return [
            {
                name: mask_value(value) if name in secret else _plain(value)
                for name, value in row.asDict().items()
            }
            for row in found
        ]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else str(value)
