"""The verdict on a table's numbers of a day, and the reasons why it is not better.

The worst reason decides. A good day does not erase the reasons of the day before, and a table whose sources are not
trusted on a day gets at most a warning for it.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TypeAlias

from strandline.core.kind import IN_UTC, Day
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.accounting.browse_held import open_rows
from strandline.engine.accounting.history_queries import (
    VOLUME,
    Batch,
    Mark,
    Memory,
    Point,
    expected,
    points,
)
from strandline.engine.accounting.routes import seen_by, sentence
from strandline.engine.flow import readers
from strandline.engine.lake.completeness import Retirement, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import commit_log
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.proof.certificate import standing
from strandline.engine.proof.freshness import freshness
from strandline_quality.findings import (
    Failing,
    Flow,
    Hour,
    KindOfRecord,
    Proof,
    Reason,
    Sheet,
    Unread,
    Verdict,
)

WAITED = timedelta(hours=1)
"""A table is stale when rows wait for longer."""

HOUR = timedelta(hours=1)
"""The step of history's figures; an hour that is not over is not compared with others."""

VERSION = re.compile(r"\(version (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The evidence on one table from which its days are judged.

    Args:
        hours: The commits of the batches in force, hour by hour, the oldest first, with a long past.
        sources: The hours in which the tables that it reads got rows; None for bronze.
        changes: The anomalies of the hours that are over.
        faults: The faults of its balance sheet, by the day on which each shows.
        unproven: The day on which it shows that a certificate failed, and why.
        warnings: What else needs a look, by the day on which it shows.
        shut: The day since which its gate is shut, and why.
        waiting: Whether rows wait for it now.
        retired: Since when it is fed no more, so that nothing waits for it; None while it is fed.
        calendar: Whose days are judged: an hour is of the day in which it begins.
        now: The moment that counts as now.
    """

    hours: Sequence[Batch]
    sources: Sequence[datetime] | None
    changes: Sequence[Mark] = ()
    faults: Mapping[date, Sequence[str]] = field(default_factory=dict)
    unproven: tuple[date, str] | None = None
    warnings: Mapping[date, Sequence[str]] = field(default_factory=dict)
    shut: tuple[date, str] | None = None
    waiting: bool = False
    retired: datetime | None = None
    calendar: Day = IN_UTC
    now: datetime


DayVerdict: TypeAlias = tuple[Verdict, tuple[str, ...]]
"""A verdict, and all the reasons why it is not better."""

_Why: TypeAlias = tuple[Verdict, str]


def day_of(moment: datetime) -> date:
    """Return the day of a moment, in UTC."""
    return moment.astimezone(UTC).date()


def begins(day: date) -> datetime:
    """Return the first moment of a day."""
    return datetime.combine(day, time(), UTC)


def flow(hours: Sequence[Batch]) -> Flow:
    """Add up where the rows of some hours went."""

    def total(name: str) -> int:
        return round(sum(hour.value(name) for hour in hours))

    names = ("good", "duplicates", "quarantined", "skipped")
    parts = _without_moves({name: total(name) for name in names})
    return Flow(
        read=total("read"),
        dropped=total("dropped_by_watermark"),
        lost=total("lost_by_function"),
        made=total("made_by_function"),
        **parts,
    )


def _without_moves(parts: Mapping[str, int]) -> dict[str, int]:
    """Take out the rows that a backfill moved from one outcome to another: one count is negative, others are as much too high."""
    left = {name: max(0, rows) for name, rows in parts.items()}
    moved = -sum(min(0, rows) for rows in parts.values())
    for name in sorted(left, key=lambda each: -left[each]):
        taken = min(moved, left[name])
        left[name] -= taken
        moved -= taken
    return dict(parts) if moved else left  # parts that do not add up to the rows read are reported


def judged(known: Known, day: date) -> DayVerdict:
    """Return the verdict on a day, with its reasons, the worst first."""
    reasons = sorted(_reasons(known, day), key=lambda each: -each[0].rank)
    if reasons:
        return reasons[0][0], tuple(why for _, why in reasons)
    return (Verdict.BELIEVED if of_day(known.hours, known.calendar, day) else Verdict.SILENT), ()


def of_day(hours: Sequence[Batch], calendar: Day, day: date) -> Sequence[Batch]:
    """Return the hours of a day; found by its ends, because a long past has thousands and each of two weeks is judged.

    Args:
        hours: The oldest first.
        calendar: Whose days are meant.
        day: The day.
    """
    ends = calendar.begins(day), calendar.ends(day)
    first, last = (bisect_left(hours, end, key=lambda hour: hour.at) for end in ends)
    return hours[first:last]


def capped(own: DayVerdict, below: Mapping[str, DayVerdict]) -> DayVerdict:
    """Return a table's verdict, at best a warning when a table that it reads is not trusted."""
    bad = [
        f"rests on {name}, which is {verdict}"
        for name, (verdict, _) in below.items()
        if not verdict.is_trusted
    ]
    verdict, because = own
    if not bad or verdict is Verdict.SILENT:
        return own
    return max(verdict, Verdict.WARNED, key=lambda each: each.rank), (*because, *bad)


def worst(days: Sequence[DayVerdict]) -> Verdict:
    """Return the worst verdict."""
    return max((verdict for verdict, _ in days), key=lambda v: v.rank, default=Verdict.SILENT)


def versions_in(fault: str) -> list[int]:
    """Return the versions that a fault of the balance names."""
    return [int(number) for number in VERSION.findall(fault)]


def _reasons(known: Known, day: date) -> Iterator[_Why]:
    """Yield faults and anomalies; anomalies of volume only for bronze, because the other tables follow it."""
    for fault in known.faults.get(day, ()):
        yield Verdict.UNBALANCED, fault
    if known.unproven and known.unproven[0] == day:
        yield Verdict.UNPROVEN, known.unproven[1]
    own = of_day(known.hours, known.calendar, day)
    yield from _lost(flow(own))
    if known.shut and known.shut[0] <= day:
        yield Verdict.HELD, known.shut[1]
    yield from _waited(known, day)
    for hour in own:
        yield from _noticed(hour)
    for warning in known.warnings.get(day, ()):
        yield Verdict.WARNED, warning
    for mark in known.changes:
        if known.calendar.date_of(mark.at) == day and not (
            mark.what == VOLUME and known.sources is not None
        ):
            yield Verdict.WARNED, f"at {mark.at:%H:%M} {mark.said}"


def _lost(sums: Flow) -> Iterator[_Why]:
    kept = sums.good + sums.duplicates + sums.quarantined
    accounted = kept + sums.skipped + sums.dropped + sums.lost
    if sums.read + sums.made != accounted:
        yield Verdict.UNBALANCED, f"{sums.read:,} rows were read and {accounted:,} accounted for"
    if sums.dropped:
        yield Verdict.UNBALANCED, f"{sums.dropped:,} rows were dropped below Spark's watermark"
    if sums.lost > 0:
        yield Verdict.UNBALANCED, f"the table's function gave no row for {sums.lost:,} records"
    if sums.made > 0:
        yield Verdict.UNBALANCED, f"the table's function gave {sums.made:,} more rows than records"


def _noticed(hour: Batch) -> Iterator[_Why]:
    failed = [name.partition(":")[2] for name in hour.values if name.startswith("failed:")]
    for name in failed:
        yield Verdict.WARNED, f"at {hour.at:%H:%M} the expectation {name} did not hold"
    if hour.opened:
        yield Verdict.WARNED, f"at {hour.at:%H:%M} the gate was opened by hand: {hour.opened}"


def _waited(known: Known, day: date) -> Iterator[_Why]:
    """Yield a reason when rows waited too long at the end of the day, or wait too long now."""
    end = min(known.calendar.ends(day), known.now)
    if known.retired is not None and known.retired <= end:
        return
    is_now = end == known.now
    if end < known.calendar.begins(day) or (
        is_now and known.sources is not None and not known.waiting
    ):
        return
    # A repair beside a stream is no evidence of how far the stream has read.
    mine = [hour.at for hour in known.hours if hour.at < end and hour.value("read") > 0]
    if known.sources is None:
        yield from _silence(mine, end)
        return
    read_to = mine[-1] if mine else datetime.min.replace(tzinfo=UTC)
    later = [at for at in known.sources if read_to < at < end]
    if is_now and not later:  # the waiting rows came after the last batch, in the same hour
        later = [at for at in known.sources if at == read_to]
    unread = [at for at in later if at + HOUR + WAITED <= end]
    if unread:
        yield Verdict.STALE, f"rows have waited since {unread[0]:%Y-%m-%d %H:%M}"


def _silence(mine: Sequence[datetime], end: datetime) -> Iterator[_Why]:
    """Yield a reason when a bronze table has been silent for longer than usual."""
    gaps = [Point(later, (later - earlier) / HOUR) for earlier, later in pairwise(mine)]
    usual = expected(gaps, end, least=1.0)
    silent = (end - mine[-1]) / HOUR - 1 if mine else 0.0
    if usual is not None and silent > usual.high:
        yield (
            Verdict.STALE,
            f"nothing came for {silent:,.0f} hours; usually for at most {usual.high:,.0f}",
        )


# The figures of a report, made from balance sheets and from history's hours.


Days = Mapping[date, Sequence[Batch]]
"""The commits of each shown day, hour by hour."""


def sheet(of_ledger: Balance) -> Sheet:
    """Return the ledger's balance sheet in the form of the report."""
    return Sheet(
        flow=Flow(
            read=of_ledger.read,
            good=of_ledger.good,
            duplicates=of_ledger.duplicates,
            quarantined=of_ledger.held_records,
            skipped=sum(of_ledger.skipped.values()),
            dropped=of_ledger.dropped_by_watermark,
            lost=of_ledger.lost_by_function,
            made=of_ledger.made_by_function,
        ),
        healed=of_ledger.healed,
        rows=of_ledger.rows,
        waiting=of_ledger.waiting,
        batches=of_ledger.batches,
        balanced=of_ledger.balanced,
        faults=tuple(of_ledger.faults),
        keeps_copies=of_ledger.keeps_copies,
    )


def kinds(of_ledger: Balance) -> tuple[KindOfRecord, ...]:
    """Return the records of each kind and where they go; those that no table has first, and then the commonest."""
    nowhere = {**of_ledger.unrouted, "further kinds": of_ledger.unrouted_more}
    found = [
        *(_kind(kind, rows, "no table takes it", homeless=True) for kind, rows in nowhere.items()),
        _kind("without a kind", of_ledger.kindless, "no table takes it", homeless=True),
        *(_kind(kind, rows, "a table takes it") for kind, rows in of_ledger.kinds.items()),
        *(_kind(kind, rows, "left on purpose") for kind, rows in of_ledger.left_out.items()),
    ]
    some = [each for each in found if each.rows]
    return tuple(sorted(some, key=lambda each: (not each.homeless, -each.rows, each.kind)))


def _kind(kind: str, rows: int, goes: str, *, homeless: bool = False) -> KindOfRecord:
    return KindOfRecord(kind=kind, rows=rows, goes=goes, homeless=homeless)


def hours(own: Sequence[Batch], before: Sequence[Batch]) -> tuple[Hour, ...]:
    """Return hours with the usual range of each, which is learnt from the hours before it."""
    memory = Memory(points(before, "read"))
    made = []
    for hour in own:
        usual = memory.expected(hour.at, least=1.0)
        made.append(
            Hour(
                at=hour.at.isoformat(),
                flow=flow([hour]),
                freshness_s=hour.values.get("freshness_s"),
                usual=(usual.low, usual.high) if usual else None,
            )
        )
        for point in points([hour], "read"):
            memory.add(point)
    return tuple(made)


def failing(days: Days, judged: Sequence[date]) -> tuple[Failing, ...]:
    """Return the rules that rows broke; if no entry has them, the reasons for which rows were held back."""
    names = {name for own in days.values() for hour in own for name in hour.values}
    kind = "broke:" if any(name.startswith("broke:") for name in names) else "quarantined:"
    judged_hours = [hour for day in judged for hour in days[day]]
    own = _summed(judged_hours, kind)
    read = sum(hour.value("read") for hour in judged_hours)
    return tuple(
        Failing(
            rule=rule,
            rows=rows,
            share=rows / read if read else 0.0,
            trend=tuple(_share(days[day], f"{kind}{rule}") for day in days),
        )
        for rule, rows in own.most_common()
    )


def reasons(own: Sequence[Batch]) -> tuple[Reason, ...]:
    """Return why rows were held back, the most frequent reason first."""
    held = _summed(own, "quarantined:")
    total = held.total()
    return tuple(
        Reason(reason=reason, rows=rows, share=rows / total) for reason, rows in held.most_common()
    )


def _summed(hours: Sequence[Batch], kind: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for hour in hours:
        for name, value in hour.values.items():
            if name.startswith(kind):
                sums[name.removeprefix(kind)] += round(value)
    return sums + Counter()  # drops the counts that a backfill has reduced to zero or less


def _share(hours: Sequence[Batch], measure: str) -> float | None:
    read = sum(hour.value("read") for hour in hours)
    return sum(hour.value(measure) for hour in hours) / read if read > 0 else None


def unread(lake: Lake) -> tuple[Unread, ...]:
    """Return what each reader of topics has not read, of its partition that is nearest to a loss."""
    seen = readers.last(lake)
    if seen is None:
        return ()
    at, dangers = seen
    of_topics = [each for each in dangers if "/" in each.source]
    return tuple(
        Unread(
            reader=reader,
            seen_at=at,
            unread=sum(each.unread for each in own),
            goes_at=nearest.goes_at,
            level=nearest.level.value,
            says=f"{nearest.source}: {nearest.says}"
            if nearest.unread or nearest.lost
            else nearest.says,
        )
        for reader in dict.fromkeys(each.reader for each in of_topics)
        if (own := [each for each in of_topics if each.reader == reader])
        and (nearest := readers.worst(own))
    )


def proof(table: Table, lake: Lake) -> Proof | None:
    """Return the result of a table's last verification; None for bronze, the base of every verification."""
    if isinstance(table, Ingested):
        return None
    words, last = standing(table, lake)
    return Proof(
        standing=words,
        at=last.at if last else None,
        rows=last.rows if last else None,
    )


# Is a table well? Answered from the lake's files alone, without Spark and without a broker.
#
# Each sign answers a question of on-call: does the ledger balance, was the table verified, does it keep up with what it
# reads, how long do rows of the quarantine wait for a decision.


Figure = int | float | str

LATE = timedelta(hours=1)
"""How long rows may wait for a table; the schedule runs every quarter of an hour."""

LONG = timedelta(days=7)
"""How long a quarantined row may wait for a decision."""

LAG = 100_000

LEDGER = "ledger_balances"
CERTIFICATE = "certificate"
FRESH = "fresh"
LAGS = "lag"
QUARANTINE = "quarantine_age"
ROUTED = "routed"
DRIFT = "drift"
PROMISE = "promise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The answer to one question.

    Args:
        name: The name of the question.
        well: Whether there is nothing to do.
        message: The answer as a sentence.
        grave: Whether the table's rows are in doubt, and not only late.
        figures: The plotted figures.
    """

    name: str
    well: bool
    message: str
    grave: bool = False
    figures: Mapping[str, Figure] = field(default_factory=dict)


QUESTIONS = {
    LEDGER: "Every event that the table read is in exactly one place.",
    CERTIFICATE: "Computed again from bronze, the table has the same rows.",
    FRESH: f"No row of what it reads waits for more than {LATE // timedelta(hours=1)} h.",
    LAGS: f"Fewer than {LAG:,} rows of what it reads wait.",
    QUARANTINE: f"No row waits in its quarantine for more than {LONG.days} days.",
    ROUTED: "Each record has a kind, and a table that takes it or a declaration that leaves it.",
    PROMISE: "Its newest row is not older than its `fresh` promises.",
    DRIFT: "Its records have no field that is not declared, and seldom a value of another type.",
}


def questions(table: Table) -> tuple[str, ...]:
    """Return the questions for a table: other tables are verified against bronze, only silver holds rows back."""
    derived = () if isinstance(table, Ingested) else (CERTIFICATE, FRESH, LAGS)
    held = (QUARANTINE, DRIFT) if isinstance(table, Judged) else ()
    routed = (ROUTED,) if isinstance(table, Ingested) and table.has_kinds else ()
    promised = (PROMISE,) if table.promise else ()
    return (LEDGER, *derived, *held, *routed, *promised)


def signs(table: Table, lake: Lake, now: datetime) -> Iterator[Sign]:
    """Yield the answers for an existing table."""
    sheet = balance(table, lake)
    if sheet.damage is not None:  # of which no question can be answered
        yield from (
            Sign(name=name, well=False, message=sheet.damage.message, grave=True)
            for name in questions(table)
        )
        return
    yield _balances(sheet)
    if (ended := retired(lake).get(table.id)) is not None:
        yield from _of_retired(table, ended)
        return
    if not isinstance(table, Ingested):
        yield _proven(table, lake)
        yield _fresh(table, lake, sheet, now)
        yield _lags(sheet)
    if isinstance(table, Judged):
        yield _quarantine(table, lake, now)
        yield _drift(table, lake)
    if isinstance(table, Ingested) and table.has_kinds:
        yield _routed(sheet)
    yield from _promised(table, lake, now)


def _of_retired(table: Table, ended: Retirement) -> Iterator[Sign]:
    """Yield that nothing is late of a table that is fed no more; its ledger must balance all the same."""
    yield from (
        Sign(name=name, well=True, message=f"retired by {ended.words}")
        for name in questions(table)
        if name != LEDGER
    )


def committed_at(table: Table, lake: Lake) -> datetime | None:
    """Return the time of a table's last commit."""
    path = lake.table(table)
    version = latest_version(path)
    if version < 0:
        return None
    return commit_log.committed_at(path, version)


def _balances(sheet: Balance) -> Sign:
    message = "balanced" if sheet.balanced else "; ".join(sheet.faults[:3])
    held = sum(sheet.quarantined.values())
    figures = {"read": sheet.read, "good": sheet.good, "duplicates": sheet.copies, "held": held}
    if sheet.skipped:
        figures["skipped"] = sum(sheet.skipped.values())
    return Sign(name=LEDGER, well=sheet.balanced, message=message, grave=True, figures=figures)


def _routed(sheet: Balance) -> Sign:
    figures = {
        "unrouted": sum(sheet.unrouted.values()) + sheet.unrouted_more,
        "without a kind": sheet.kindless,
        "left on purpose": sum(sheet.left_out.values()),
    }
    message = "; ".join(sheet.said) or "a table takes each kind"
    return Sign(name=ROUTED, well=not sheet.homeless, message=message, figures=figures)


def _drift(table: Judged, lake: Lake) -> Sign:
    seen = seen_by(table, lake)
    new = sum(each.is_new for each in seen.fields)
    figures: dict[str, Figure] = {
        "undeclared fields": new,
        "fields with values of another type": len(seen.fields) - new,
        "records looked at": seen.looked_at,
    }
    message = sentence(table, seen)
    return Sign(
        name=DRIFT,
        well=not message,
        message=message or seen.why_not or "its records are as declared",
        figures=figures,
    )


def _proven(table: Table, lake: Lake) -> Sign:
    result, last = standing(table, lake)
    figures: dict[str, Figure] = (
        {"rows": last.rows, "at": last.at, "seed": last.seed} if last else {}
    )
    message = result if last else "never verified; the job `certify` does it"
    return Sign(
        name=CERTIFICATE,
        well=not result.startswith("NOT"),
        message=message,
        grave=True,
        figures=figures,
    )


def _fresh(table: Table, lake: Lake, sheet: Balance, now: datetime) -> Sign:
    at = committed_at(table, lake)
    age = now - at if at else timedelta(0)
    waits = sheet.waiting > 0 and age > LATE
    minutes = int(age.total_seconds() // 60)
    message = f"{sheet.waiting:,} rows wait, and the last commit is {minutes} minutes old"
    return Sign(
        name=FRESH, well=not waits, message=message, figures={"minutes since commit": minutes}
    )


def _promised(table: Table, lake: Lake, now: datetime) -> Iterator[Sign]:
    if (found := freshness(table, lake, now)) is not None:
        figures: dict[str, Figure] = {
            "seconds old": round(found.age.total_seconds()),
            "seconds promised": round(found.promise.length.total_seconds()),
        }
        yield Sign(name=PROMISE, well=found.is_kept, message=found.says, figures=figures)


def _lags(sheet: Balance) -> Sign:
    message = f"{sheet.waiting:,} rows wait"
    return Sign(
        name=LAGS, well=sheet.waiting < LAG, message=message, figures={"lag": sheet.waiting}
    )


def _quarantine(table: Table, lake: Lake, now: datetime) -> Sign:
    held = open_rows(table, lake, now)
    if held is None or held.oldest is None:
        return Sign(name=QUARANTINE, well=True, message="nothing is held", figures={"held": 0})
    age = now - datetime.fromisoformat(held.oldest)
    message = f"{held.rows:,} rows are held, the oldest for {age.days} days"
    figures: dict[str, Figure] = {"held": held.rows, "oldest": held.oldest, "days": age.days}
    return Sign(name=QUARANTINE, well=age <= LONG, message=message, figures=figures)
