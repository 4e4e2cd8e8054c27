"""What a table's numbers of a day are worth, and why not more.

The worst reason decides. Nothing that is written about a day is forgotten because the next one went well, and a day
of a table is worth no more than what it rests on allows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TypeAlias

from jobs.run.drift import VOLUME, Mark
from jobs.run.expected import Point, expected
from jobs.run.past import Batch
from quality.report.findings import Flow, Verdict

WAITED = timedelta(hours=1)
"""Rows that wait for longer make a table stale."""

HOUR = timedelta(hours=1)
"""Hours are what history is asked for; one that is not over is not compared with others."""

VERSION = re.compile(r"\(version (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one table when its days are judged.

    Args:
        hours: What was committed hour by hour, of the batches in force, from long before on.
        sources: The hours in which the tables that it reads got rows; None for bronze.
        changes: What is not as usual in the hours that are over.
        faults: What does not agree, each on the day on which it shows.
        shut: The day from which on its gate is shut, and why.
        waiting: Whether rows wait for it now.
        now: The moment that counts as now.
    """

    hours: Sequence[Batch]
    sources: Sequence[datetime] | None
    changes: Sequence[Mark] = ()
    faults: Mapping[date, Sequence[str]] = field(default_factory=dict)
    shut: tuple[date, str] | None = None
    waiting: bool = False
    now: datetime


Judged: TypeAlias = tuple[Verdict, tuple[str, ...]]
"""A verdict, and all the reasons why it is not better."""

_Why: TypeAlias = tuple[Verdict, str]


def day_of(moment: datetime) -> date:
    """Return the day of a moment, in UTC."""
    return moment.astimezone(UTC).date()


def begins(day: date) -> datetime:
    """Return the first moment of a day."""
    return datetime.combine(day, time(), UTC)


def flow(hours: Sequence[Batch]) -> Flow:
    """Add up where the rows went that were read in some hours."""

    def total(name: str) -> int:
        return round(sum(hour.value(name) for hour in hours))

    parts = _without_moves({name: total(name) for name in ("good", "duplicates", "quarantined")})
    return Flow(read=total("read"), dropped=total("dropped_by_watermark"), **parts)


def _without_moves(parts: Mapping[str, int]) -> dict[str, int]:
    """Take out what a backfill moved among rows of earlier hours: less than none here, as many more there."""
    left = {name: max(0, rows) for name, rows in parts.items()}
    moved = -sum(min(0, rows) for rows in parts.values())
    for name in sorted(left, key=lambda each: -left[each]):
        taken = min(moved, left[name])
        left[name] -= taken
        moved -= taken
    return dict(parts) if moved else left  # which adds up to nothing that was read, and is told


def judged(known: Known, day: date) -> Judged:
    """Return what the numbers of a day are worth, and why."""
    found = sorted(_reasons(known, day), key=lambda each: -each[0].rank)
    if found:
        return found[0][0], tuple(why for _, why in found)
    written = any(day_of(hour.at) == day for hour in known.hours)
    return (Verdict.BELIEVED if written else Verdict.SILENT), ()


def resting(own: Judged, below: Mapping[str, Judged]) -> Judged:
    """Return what a table's day is worth in the light of what it rests on."""
    bad = [
        f"rests on {name}, which is {verdict}"
        for name, (verdict, _) in below.items()
        if not verdict.is_trusted
    ]
    verdict, because = own
    if not bad or verdict is Verdict.SILENT:
        return own
    return max(verdict, Verdict.WARNED, key=lambda each: each.rank), (*because, *bad)


def worst(found: Sequence[Judged]) -> Verdict:
    """Return the worst verdict."""
    return max((verdict for verdict, _ in found), key=lambda v: v.rank, default=Verdict.SILENT)


def versions_in(fault: str) -> list[int]:
    """Return the versions that a fault of the balance names."""
    return [int(number) for number in VERSION.findall(fault)]


def _reasons(known: Known, day: date) -> Iterator[_Why]:
    """Yield what is wrong or odd; of volumes only those of bronze, which the others follow."""
    for fault in known.faults.get(day, ()):
        yield Verdict.UNBALANCED, fault
    own = [hour for hour in known.hours if day_of(hour.at) == day]
    yield from _lost(flow(own))
    if known.shut and known.shut[0] <= day:
        yield Verdict.HELD, known.shut[1]
    yield from _waited(known, day)
    for hour in own:
        yield from _noticed(hour)
    for mark in known.changes:
        if day_of(mark.at) == day and not (mark.what == VOLUME and known.sources is not None):
            yield Verdict.WARNED, f"at {mark.at:%H:%M} {mark.said}"


def _lost(sums: Flow) -> Iterator[_Why]:
    accounted = sums.good + sums.duplicates + sums.quarantined + sums.dropped
    if sums.read != accounted:
        yield Verdict.UNBALANCED, f"{sums.read:,} rows were read and {accounted:,} accounted for"
    if sums.dropped:
        yield Verdict.UNBALANCED, f"{sums.dropped:,} rows were dropped below Spark's watermark"


def _noticed(hour: Batch) -> Iterator[_Why]:
    failed = [name.partition(":")[2] for name in hour.values if name.startswith("failed:")]
    for name in failed:
        yield Verdict.WARNED, f"at {hour.at:%H:%M} the expectation {name} did not hold"
    if hour.opened:
        yield Verdict.WARNED, f"at {hour.at:%H:%M} the gate was opened by hand: {hour.opened}"


def _waited(known: Known, day: date) -> Iterator[_Why]:
    """Tell whether rows waited when the day ended, or wait now, for longer than they should."""
    end = min(begins(day) + timedelta(days=1), known.now)
    is_now = end == known.now
    if end < begins(day) or (is_now and known.sources is not None and not known.waiting):
        return
    # What was put right beside a stream says nothing of how far the stream came.
    mine = [hour.at for hour in known.hours if hour.at < end and hour.value("read") > 0]
    if known.sources is None:
        yield from _silence(mine, end)
        return
    read_to = mine[-1] if mine else datetime.min.replace(tzinfo=UTC)
    later = [at for at in known.sources if read_to < at < end]
    if is_now and not later:  # what waits came in the hour of the last batch, after it
        later = [at for at in known.sources if at == read_to]
    unread = [at for at in later if at + HOUR + WAITED <= end]
    if unread:
        yield Verdict.STALE, f"rows have waited since {unread[0]:%Y-%m-%d %H:%M}"


def _silence(mine: Sequence[datetime], end: datetime) -> Iterator[_Why]:
    """Tell whether a table of bronze has been silent for longer than it ever is."""
    gaps = [Point(later, (later - earlier) / HOUR) for earlier, later in pairwise(mine)]
    usual = expected(gaps, end, least=1.0)
    silent = (end - mine[-1]) / HOUR - 1 if mine else 0.0
    if usual is not None and silent > usual.high:
        yield (
            Verdict.STALE,
            f"nothing came for {silent:,.0f} hours; usually for at most {usual.high:,.0f}",
        )
