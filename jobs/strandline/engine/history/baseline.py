"""The usual range of a table's measure, learnt from its past: median and spread, by the hour of the week.

Why the median and the distance from it (MAD) rather than mean and deviation: one batch of a catch-up is a hundred
times the usual one, and a mean would need weeks to forget it. Why the hour of the week: at three on a Sunday, half
the volume of Friday noon is no reason to worry.

Without enough points there is no range: with fewer than ``FEWEST`` it would be a guess, and a guess raises false alarms.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

FEWEST = 14
"""The number of points below which there is no range."""

WIDTH = 4.0
"""How many spreads around the median are usual."""

AS_DEVIATION = 1.4826
"""The factor from the median distance of normally distributed values to their standard deviation."""

RECENT = 500
"""How many of the newest points are used while an hour of the week has too few."""

TOLERANCE = 0.1
"""The share of the median that is always within the range, however steady the measure was."""


@dataclass(frozen=True, slots=True)
class Point:
    """The value of a measure at a time.

    Args:
        at: The time, in UTC.
        value: The value.
        is_believed: Whether to learn from it; a batch that failed a critical expectation does not count.
    """

    at: datetime
    value: float
    is_believed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The usual range of a measure.

    Args:
        low: The lowest usual value.
        middle: The median.
        high: The highest usual value.
        points: The number of points that it was learnt from.
    """

    low: float
    middle: float
    high: float
    points: int

    def __contains__(self, value: float) -> bool:
        """Return whether a value is usual."""
        return self.low <= value <= self.high


def expected(points: Iterable[Point], at: datetime, *, least: float = 0.0) -> Range | None:
    """Return the usual range of a measure at a time; None without enough points.

    Args:
        points: The past values; those at that time or after it are ignored.
        at: The time; its hour of the week counts, if enough points share it.
        least: A distance from the median that is always usual, in the measure's unit.
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
    """Points in the order of time, for a caller that asks ``expected`` before each of them."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        """Begin with some points, oldest first."""
        self._all: list[Point] = []
        self._alike: dict[tuple[int, int], list[Point]] = defaultdict(list)
        for point in points:
            self.add(point)

    def add(self, point: Point) -> None:
        """Add a point, which is newer than all others."""
        if point.is_believed:
            self._all.append(point)
            self._alike[_hour_of_week(point.at)].append(point)

    def expected(self, at: datetime, *, least: float = 0.0) -> Range | None:
        """Return the usual range at a time after all points."""
        alike = self._alike[_hour_of_week(at)]
        enough = len(alike) >= FEWEST
        return expected(alike if enough else self._all[-RECENT:], at, least=least)


def _hour_of_week(moment: datetime) -> tuple[int, int]:
    here = moment.astimezone(UTC)
    return here.weekday(), here.hour
