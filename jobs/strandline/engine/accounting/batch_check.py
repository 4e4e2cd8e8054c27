"""Check a batch before it is committed, from counts that the commit needs anyway.

The rows of a batch are read once, grouped by the rules that they break: one execution counts them for each rule and
for the ledger, for one rule as for fifty.

A small batch is judged twice: by itself, and together with those before it.

It is judged by Great Expectations, and where that is not installed by a module that finds the same (quality/strandline_quality/judge).
The library is called only where a check of the counts finds something, with the same result as the library's
(tests/quality/test_suite.py compares both on random counts): its import costs each process 4 s of CPU on an idle
machine and 12 on a busy one, and a suite 50 ms a batch, also for batches without findings.
"""

import hashlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.parse import DRIFT, RESCUED
from strandline.core.table import Judged, Table
from strandline.core.topic import ITEM_FAULTS, PLACE
from strandline.core.verdict import WARNED, bad_items, own_columns
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import GateShutError, Shut, Where
from strandline.engine.accounting.history_queries import Past, expected
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.duckdb_table import unreadable_errors
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entry_at, is_table, latest_version
from strandline.engine.lake.place import Place
from strandline_quality.expectations import (
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
from strandline_quality.judge import Judge, Plain, judge
from strandline_quality.mask import mask_value
from strandline_quality.rules import FEW, Severity, fingerprint

# With what a small batch is judged: the rows of the batches before it, and what is usual for its table.
#
# The rows with which a small batch is judged: its own, and those of the batches before it.
#
# A stream that splits a bad hour into batches of ten must be stopped, although each of them proves little. So a batch of
# fewer than a hundred rows is judged together with the batches before it, the newest first, until there are a hundred
# rows.
#
# That pool once let a batch of 60 rows, 30 of them bad, pass a limit of a fifth, for two reasons that are excluded now:
#
# * Rows from before a rule was written or changed prove nothing about it. An entry has the fingerprint of the rules
#   by which it was judged, and only batches with today's rules count.
# * Good rows of an hour ago must not hide bad ones of now. So a batch is also judged by itself where more than ``FEW``
#   of its own rows break a rule: that many are proof without other batches.


TOGETHER = 100
"""How many rows are judged together where a batch has fewer."""

LOOKED_BACK = 1_000
"""How many commits are searched for them, so a start costs the same after a year."""


@dataclass(slots=True)
class Tally:
    """The counts of one or several batches, by the rules that their rows break.

    Args:
        good: Good rows.
        held: The other rows, by the reason under which the ledger counts them.
        broke: Rows by every rule or reason that they break.
        newest: The newest event time among the good rows.
        items: The items of the good rows, where the table makes rows of lists.
        held_items: Of what is held, the items of good rows.
        drifted: The rows whose payloads have something beside their declaration.
    """

    good: int = 0
    held: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None
    items: int | None = None
    held_items: int = 0
    drifted: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.good + self.held_rows

    @property
    def held_rows(self) -> int:
        """Return how many of them are held."""
        return self.held.total() - self.held_items


class Recent:
    """The last batches of a table that passed, as many as a small batch is judged with."""

    def __init__(self) -> None:
        """Begin with none."""
        self._batches = deque[Tally]()

    @classmethod
    def of(cls, path: Place, rules: str) -> "Recent":
        """Read them from the ledger, so a restart forgets nothing.

        Args:
            path: The table.
            rules: Fingerprint of today's rules; a batch that was judged by other rules ends the search.
        """
        recent = cls()
        newest = latest_version(path) if is_table(path) else -1
        for version in range(newest, max(-1, newest - LOOKED_BACK), -1):
            entry = entry_at(path, version)
            if entry is None or entry.is_backfill or entry.opened or not entry.read:
                continue
            if entry.replaced or entry.rules != rules or recent._rows >= TOGETHER:
                break
            held, broke = Counter(entry.quarantined), Counter(entry.broke)
            tally = Tally(good=entry.good, held=held, broke=broke, held_items=entry.held_items)
            recent._batches.appendleft(tally)
        return recent

    def add(self, batch: Tally) -> None:
        """Add a batch that passed, and drop those that no small batch needs any more."""
        self._batches.append(batch)
        while self._rows - self._batches[0].rows >= TOGETHER:
            self._batches.popleft()

    def with_(self, batch: Tally) -> Tally | None:
        """Return a small batch together with those before it; None when it is judged only by itself."""
        if batch.rows >= TOGETHER or not self._batches:
            return None
        pool = Tally()
        for each in (*self._batches, batch):
            pool.good += each.good
            pool.held += each.held
            pool.held_items += each.held_items
            pool.broke += each.broke
        return pool

    @property
    def _rows(self) -> int:
        return sum(each.rows for each in self._batches)


def proves(finding: Finding, batch: Tally) -> bool:
    """Return whether a batch alone has enough bad rows for a finding; half of a batch of two proves nothing."""
    unread = sum(batch.broke[why] for why in UNREAD)
    return (unread if finding.name == "unread" else finding.failed) > FEW


# The usual figures of a batch, from history, as bounds for a suite of Great Expectations.
#
# They are read once an hour, because a range belongs to an hour of the week; ``strandline history`` and ``report``
# bring history up to date. Without enough history there are no bounds, and a history that cannot be read has none
# either: a stream must not stop for a warning.


MEASURES = {VOLUME: ("read", 10.0), HELD_SHARE: ("share:quarantined", 0.02)}
"""Each figure's name in history, and the distance from the median that is always usual."""


class Usual:
    """The bounds for one table, kept for an hour."""

    def __init__(self, table: Table, lake: Lake, clock: Callable[[], datetime]) -> None:
        """Prepare; history is not read yet."""
        self._table = table
        self._lake = lake
        self._clock = clock
        self._hour: datetime | None = None
        self._bounds: Bounds = {}

    def bounds(self) -> Bounds:
        """Return the lowest and highest usual value of each figure that has enough points."""
        hour = self._clock().replace(minute=0, second=0, microsecond=0)
        if hour != self._hour:
            self._hour = hour
            self._bounds = self._learnt(self._clock())
        return self._bounds

    def _learnt(self, now: datetime) -> Bounds:
        if not is_table(self._lake.history):
            return {}
        try:
            past = Past(self._lake)
            ranges = {
                name: expected(past.points(self._table, measure, now), now, least=least)
                for name, (measure, least) in MEASURES.items()
            }
        except unreadable_errors():
            return {}
        return {name: (each.low, each.high) for name, each in ranges.items() if each}


SAMPLES = 5

_ASKING = threading.Lock()
"""Held while the judge is asked: the library's parser of parameters counts, in all threads alike, the arguments of its functions when
it is first used, and of three tables whose first findings came at once two ended with its TypeError."""

RECOMPUTED = "recomputed to be compared"
"""The reason in the ledger where all gates of a lake are open."""


def counted(rows: DataFrame, table: Table) -> Tally:
    """Count judged rows by the rules that they break, in one execution for any number of rules."""
    marks = [name for name in (WARNED, ITEM_FAULTS) if name in rows.columns]
    by = ["_reasons", *marks]
    newest = F.unix_micros(F.max(str(table.event_at))).alias("newest")
    figures = [F.count(F.lit(1)).alias("n"), newest]
    if DRIFT in rows.columns:
        figures.append(F.count(DRIFT).alias("drifted"))
    listed = table.rows if isinstance(table, Judged) else None
    if listed:
        figures.append(F.sum(F.size(listed)).alias("items"))
    found, latest, has_bad_items = Tally(items=0 if listed else None), 0, False
    for group in rows.groupBy(*by).agg(*figures).collect():
        reasons = group["_reasons"]
        found.drifted += group["drifted"] if DRIFT in rows.columns else 0
        if reasons:
            found.held[reasons[0]] += group["n"]
        else:
            found.good += group["n"]
            if found.items is not None:
                found.items += group["items"]
            latest = max(latest, group["newest"] or 0)
        for name in {*(reasons or ()), *(name for mark in marks for name in group[mark] or ())}:
            found.broke[name] += group["n"]
        has_bad_items |= ITEM_FAULTS in marks and group[ITEM_FAULTS] is not None
    if found.good:
        found.newest = EPOCH + latest * MICROSECOND
    if has_bad_items and isinstance(table, Judged):
        of_items = held_by_reason(bad_items(rows, table))
        found.held.update(of_items)
        found.held_items = of_items.total()
    return found


def held_by_reason(held: DataFrame) -> Counter[str]:
    """Count rows of a quarantine by the reason under which the ledger counts them."""
    reasons = held.groupBy(F.element_at("reasons", 1).alias("why")).count().collect()
    return Counter({row["why"]: row["count"] for row in reasons})


@dataclass
class Guard:
    """Checks the batches of one table before they are committed.

    Args:
        table: The table.
        lake: Its lake.
        clock: Returns the time.
        where: What it checks: batches of the stream, or a range that is computed again.
    """

    table: Table
    lake: Lake
    clock: Callable[[], datetime]
    where: Where = Where.BEFORE
    _columns: str = field(default="", init=False)
    _has_no_gate: bool = field(default=False, init=False)
    _history: tuple[datetime, bool] | None = field(default=None, init=False)

    def admit(self, entry: Entry, found: Tally, rows: DataFrame, named: str = "") -> Entry:
        """Return the entry of a batch that passes, with the findings.

        Args:
            entry: The batch's entry.
            found: The counts of its rows.
            rows: The rows, for samples where the batch does not pass.
            named: The batch's name when it is repeated; the stream of the entry when absent.

        Raises:
            GateShutError: The batch is not believed, and no operator opened the gate for it.
        """
        checked = replace(
            entry,
            # The other figures of a range are differences.
            broke=dict(found.broke) if self.where is Where.BEFORE else {},
            rules=fingerprint(self.table.rules),
            contract=self._contract(rows),
            newest=found.newest.isoformat() if found.newest else None,
        )
        if not found.rows and not checked.dropped_by_watermark:
            return checked
        findings = [each for each in self._findings(checked, found) if not each.holds]
        checked = replace(checked, failed=tuple(each.name for each in findings))
        critical = [each for each in findings if each.is_critical]
        if not critical:
            self._recent.add(found)
            return checked
        if gate_files.are_all_open(self.lake):
            return replace(checked, opened=RECOMPUTED)
        self._has_no_gate = False
        shut = self._shut(checked, found, critical, named)
        known = gate_files.read(self.table, self.lake, self.where)
        if known is not None and known.lets_pass(shut):
            return replace(checked, opened=known.opened)
        samples = {each.name: self._samples(rows, each.name) for each in critical if each.failed}
        shut = replace(shut, samples=samples)
        gate_files.write(shut, self.table, self.lake)
        raise GateShutError.before(shut)

    def passed(self, stream: str, batch: int) -> None:
        """Remove the gate's file once the batch that it concerns is committed.

        Only a guard of this table writes one, and it does so in ``admit``; so one that has found none need not look again.
        """
        if self._has_no_gate:
            return
        known = gate_files.read(self.table, self.lake, self.where)
        if known is not None and known.is_of(stream, batch):
            gate_files.clear(self.table, self.lake, self.where)
        self._has_no_gate = known is None

    @cached_property
    def _expected(self) -> tuple[Expectation, ...]:
        return of_counters(self.table.rules, self.table.expects)

    @cached_property
    def _judge(self) -> Judge:
        return judge(self.table.id, self._expected)

    @cached_property
    def _usual(self) -> Any:  # noqa: ANN401  # its import is put off

        return Usual(self.table, self.lake, self.clock)

    def _bounds(self, entry: Entry) -> Bounds:
        """Return the usual figures of a stream's batch; a range and a batch over everything have none."""
        is_batch = self.where is Where.BEFORE and not entry.replaced
        # Without history there are no usual figures, and the import of its module would be wasted.
        if not is_batch or not self._has_history():
            return {}
        bounds: Bounds = self._usual.bounds()
        return bounds

    def _has_history(self) -> bool:
        """Return whether the lake has a history, which is written once a night: looked for once an hour until it is there."""
        hour = self.clock().replace(minute=0, second=0, microsecond=0)
        if self._history is None or (not self._history[1] and self._history[0] != hour):
            self._history = (hour, is_table(self.lake.history))
        return self._history[1]

    def _contract(self, rows: DataFrame) -> str:
        if not self._columns:
            kinds = rows.select(*own_columns(rows)).schema.simpleString()
            self._columns = hashlib.sha256(kinds.encode()).hexdigest()[:12]
        return self._columns

    def _findings(self, entry: Entry, found: Tally) -> tuple[Finding, ...]:
        """Judge a batch by itself, and a small one together with those before it as well."""
        bounds = self._bounds(entry)
        alone = self._judged(self._counts(entry, found, found), bounds)
        pool = self._recent.with_(found)
        if pool is None:
            return alone
        together = self._judged(self._counts(entry, found, pool), bounds)
        own = [each for each in alone if not each.holds and proves(each, found)]
        return tuple({each.name: each for each in (*together, *own)}.values())

    def _counts(self, entry: Entry, found: Tally, pool: Tally) -> Counts:
        """Return the batch's own figures, and the shares among the rows with which it is judged."""
        rows, broke = pool.rows, pool.broke
        figures = {
            "unread": sum(broke[why] for why in UNREAD) / rows if rows else 0.0,
            "refused_by_state": float(entry.dropped_by_watermark),
        }
        if self.where is Where.BEFORE:
            figures["rows"] = float(found.rows)
        if entry.read:
            figures |= {VOLUME: float(entry.read), HELD_SHARE: found.held_rows / entry.read}
        if found.newest is not None and self.where is Where.BEFORE:
            figures["minutes_behind"] = (self.clock() - found.newest).total_seconds() / 60
        return Counts(rows=rows, broke=broke, figures=figures)

    def _judged(self, counts: Counts, bounds: Bounds) -> tuple[Finding, ...]:
        """Return the judge's findings; the library is not asked where the counts show that it finds nothing that shuts a gate.

        What is only noted, ours finds in the same words; the library's import alone is 4.4 s of CPU, a tenth of a first run of the
        example, for which each table waits.
        """
        failing = [each for each in self._expected if fails(each, counts, bounds)]
        if not failing:
            return ()
        if not any(each.severity is Severity.CRITICAL for each in failing):
            return Plain(self._expected).of_counts(counts, bounds)
        with _ASKING:
            return self._judge.of_counts(counts, bounds)

    @cached_property
    def _recent(self) -> Recent:
        """Return the last batches that passed; a range is judged without them."""
        if self.where is not Where.BEFORE:
            return Recent()
        return Recent.of(self.lake.table(self.table), fingerprint(self.table.rules))

    def _shut(self, entry: Entry, found: Tally, critical: Sequence[Finding], named: str) -> Shut:
        return Shut(
            table=self.table.id,
            where=self.where,
            stream=named or entry.stream,
            batch=entry.batch,
            versions={name: list(ends) for name, ends in entry.versions.items()},
            rows=found.rows,
            at=self.clock().isoformat(timespec="seconds"),
            findings=gate_files.as_json(critical),
        )

    def _samples(self, rows: DataFrame, rule: str) -> list[dict[str, Any]]:
        """Return some rows that break a rule; this is one more execution, but the batch ends here."""
        breaks = F.array_contains("_reasons", rule)
        for mark in (name for name in (WARNED, ITEM_FAULTS) if name in rows.columns):
            breaks = F.coalesce(breaks, F.lit(False)) | F.array_contains(mark, rule)
        found = rows.where(breaks).select(*PLACE, *own_columns(rows)).limit(SAMPLES).collect()
        # A list may have what its rows mask.
        whole = (RESCUED, getattr(self.table, "rows", None)) if self.table.secret else ()
        secret = {*self.table.secret, *whole}
        return [
            {
                name: mask_value(value) if name in secret else _plain(value)
                for name, value in row.asDict().items()
            }
            for row in found
        ]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else str(value)
