"""What a measure of a table usually is, learnt from what it was: median and spread, by the hour of the week.

Why the median and the distance from it (MAD) rather than mean and deviation: one batch of a catch-up is a hundred
times the usual one, and a mean would need weeks to forget it. Why the hour of the week: at three on a Sunday half
of Friday noon is nothing to worry about.

Silence is an answer: with fewer points than ``FEWEST`` nobody knows what is usual, and a guess would be an alarm.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

FEWEST = 14
"""So many points there must be before anything is expected."""

WIDTH = 4.0
"""So many spreads from the middle are still usual."""

AS_DEVIATION = 1.4826
"""What makes the median distance of values that are normally distributed their standard deviation."""

RECENT = 500
"""While an hour of the week has too few points, so many of the newest stand for all hours."""

TOLERANCE = 0.1
"""So much of the middle is never worth a word, however steady the measure was."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measure at a moment.

    Args:
        at: When, in UTC.
        value: What it was.
        is_believed: Whether to learn from it; a batch that failed a critical expectation teaches nothing.
    """

    at: datetime
    value: float
    is_believed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What a measure is expected to be.

    Args:
        low: The least that is usual.
        middle: The median.
        high: The most that is usual.
        points: How many points it was learnt from.
    """

    low: float
    middle: float
    high: float
    points: int

    def __contains__(self, value: float) -> bool:
        """Tell whether a value is usual."""
        return self.low <= value <= self.high


def expected(points: Iterable[Point], at: datetime, *, least: float = 0.0) -> Range | None:
    """Return what a measure is expected to be at a moment; None while nobody can know.

    Args:
        points: What it was; those at the moment itself or after it are passed over.
        at: The moment; its hour of the week counts, if enough points share it.
        least: A distance from the middle that is always usual, in the measure's own unit.
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
    """Points as they come, in the order of time, for who asks ``expected`` before each of them."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        """Begin with some points, oldest first."""
        self._all: list[Point] = []
        self._alike: dict[tuple[int, int], list[Point]] = defaultdict(list)
        for point in points:
            self.add(point)

    def add(self, point: Point) -> None:
        """Remember one more, which is newer than all others."""
        if point.is_believed:
            self._all.append(point)
            self._alike[_hour_of_week(point.at)].append(point)

    def expected(self, at: datetime, *, least: float = 0.0) -> Range | None:
        """Return what is expected at a moment after all points."""
        alike = self._alike[_hour_of_week(at)]
        enough = len(alike) >= FEWEST
        return expected(alike if enough else self._all[-RECENT:], at, least=least)


def _hour_of_week(moment: datetime) -> tuple[int, int]:
    here = moment.astimezone(UTC)
    return here.weekday(), here.hour
