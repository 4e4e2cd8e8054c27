"""How near the loss of what a reader still needs is, in a level and a sentence."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from strandline.engine.kafka.outlook import Outlook
from strandline.engine.kafka.retention import Retention
from strandline.engine.kafka.slices import name_of
from strandline.engine.pipeline.span_words import span

WARNED = timedelta(days=2)
"""Time left below which there is a warning: a weekend, and what a person needs after it."""

URGENT = timedelta(hours=12)
"""Time left below which a person is asked at once: a night."""

WARNED_SHARE, URGENT_SHARE = 0.5, 0.25
"""The same as shares of the time for which a topic keeps its records, for one that keeps them for less than that."""


LONGEST = 10**13
"""Milliseconds, 300 years; a topic may keep its records for longer than a span can be."""


class Level(StrEnum):
    """How near the loss is, from the best to the worst."""

    SAFE = "safe"
    UNKNOWN = "not known"
    SOON = "soon"
    URGENT = "urgent"
    LOST = "lost"

    @property
    def rank(self) -> int:
        """Return its place from the best to the worst."""
        return list(Level).index(self)

    @property
    def is_alarming(self) -> bool:
        """Return whether a person must act now."""
        return self.rank >= Level.URGENT.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """What a reader still needs of one source, and for how long it is there.

    Args:
        reader: Who reads.
        source: A partition of a topic, or a table.
        unread: How many offsets or commits are unread.
        next_at: When the oldest of them was written.
        goes_at: The earliest moment at which it may be gone; None for never, or unknown.
        seconds: The time until then; below 0, it may go at any moment.
        lost: The first offset or version that is gone and was not read, and the one after the last.
        level: How near the loss is.
        says: All of it in a sentence.
    """

    reader: str
    source: str
    unread: int
    next_at: str | None = None
    goes_at: str | None = None
    seconds: float | None = None
    lost: tuple[int, int] | None = None
    level: Level
    says: str


Judged = tuple[Level, str]


def judged(reader: str, found: Outlook, now: datetime, *, stops: bool = True) -> Danger:
    """Return what an outlook means for a reader at a moment.

    Args:
        reader: Its name.
        found: What Kafka has for it.
        now: The moment.
        stops: Whether the reader stops where a record is gone; one that goes on asks for no person.
    """
    left = found.goes_at - now if found.goes_at else None
    level, says = _without_unread(found) or _of_unread(found, left)
    if not stops:
        level = min(level, Level.SOON, key=lambda each: each.rank)
    return Danger(
        reader=reader,
        source=name_of(found.part),
        unread=found.unread,
        next_at=text(found.next_at),
        goes_at=text(found.goes_at),
        seconds=left.total_seconds() if left is not None else None,
        lost=found.lost,
        level=level,
        says=says,
    )


def text(moment: datetime | None) -> str | None:
    """Return a moment to the second."""
    return moment.isoformat(timespec="seconds") if moment else None


def _without_unread(found: Outlook) -> Judged | None:
    """Judge what no time is asked for; None where a record is there and unread."""
    if found.lost:
        first, end = found.lost
        return Level.LOST, f"offsets {first} to {end - 1} are gone and were not read"
    if found.unread:
        return None
    return (Level.UNKNOWN, found.unknown) if found.unknown else (Level.SAFE, "nothing is unread")


def _of_unread(found: Outlook, left: timedelta | None) -> Judged:
    kept, aside = found.retention, _aside(found.retention)
    if kept.unknown:
        return Level.UNKNOWN, kept.unknown
    if kept.ms is None:
        return (Level.UNKNOWN if aside else Level.SAFE), f"kept whatever its age{aside}"
    if left is None:
        return Level.UNKNOWN, f"{found.unknown or 'the next record has no time'}{aside}"
    level = _by_time(left, kept.ms)
    if level is Level.SAFE and aside:
        level = Level.UNKNOWN
    if left <= timedelta(0):
        return level, f"older than its topic keeps records: it may go at any moment{aside}"
    return level, f"kept for another {span(left)} at least{aside}"


def _by_time(left: timedelta, milliseconds: int) -> Level:
    whole = timedelta(milliseconds=min(milliseconds, LONGEST))
    if left < min(URGENT, whole * URGENT_SHARE):
        return Level.URGENT
    return Level.SOON if left < min(WARNED, whole * WARNED_SHARE) else Level.SAFE


def _aside(kept: Retention) -> str:
    """Return by what else than its age a record may go, of which no moment is known."""
    by_size = "; by size: not known" if kept.size is not None else ""
    by_key = "; compacted: it may go once its key has a newer record" if kept.by_key else ""
    return by_size + by_key
