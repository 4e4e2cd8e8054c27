"""When will a table have caught up? The rows that it is behind, and how fast they become fewer.

What a table is behind is its own unread rows and those that its sources have not read: while bronze catches up, what
silver has to read grows, and would look as if silver fell behind. How fast it falls is measured and not computed from a
batch: it is what is read less what arrives meanwhile, with all pauses. Commits come in steps of many seconds, so the
slope is that of a line through the last two minutes. It is not guessed from less than a part of that, and a table that
does not get closer has no time at which it has caught up.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OVER = 120.0
"""Seconds over which the fall is measured: several batches of a backlog."""

ENOUGH = 20.0
"""Seconds without which nothing is said."""

SURE = 60.0
"""Seconds without which it is not said that a table gets no closer: in the first minute of a start its sources read first."""

FEW = 1_000
"""Rows; a table that is fewer behind has caught up: they are what arrived since its last batch."""

LONG = 30 * 86_400.0
"""A time that is longer is none."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(slots=True)
class Trend:
    """What one table was behind in the last two minutes."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, at: float, behind: int) -> None:
        """Add a look; a table that has caught up begins anew with the next backlog."""
        if behind <= FEW:
            self.seen.clear()
            return
        self.seen.append((at, behind))
        while at - self.seen[0][0] > OVER:
            self.seen.popleft()

    @property
    def falls(self) -> float | None:
        """Return by how many rows a second it falls; below 0 it grows, and None is not known yet."""
        if not self.seen or self.seen[-1][0] - self.seen[0][0] < ENOUGH:
            return None
        first = self.seen[0][0]
        middle = sum(at - first for at, _ in self.seen) / len(self.seen)
        mean = sum(behind for _, behind in self.seen) / len(self.seen)
        above = sum((at - first - middle) * (behind - mean) for at, behind in self.seen)
        below = sum((at - first - middle) ** 2 for at, _ in self.seen)
        falls = -above / below if below else None
        is_short = self.seen[-1][0] - first < SURE
        return None if falls is not None and falls <= 0 and is_short else falls


def seconds_left(behind: int, falls: float | None) -> float | None:
    """Return the seconds until a table has caught up; None where that is not known, or never.

    >>> seconds_left(1_200_000, 20_000.0)
    60.0
    """
    if behind <= FEW:
        return 0.0
    if falls is None or falls <= 0:
        return None
    seconds = behind / falls
    return seconds if seconds < LONG else None


def in_words(behind: int | None, falls: float | None) -> str:
    """Return for people when a table will have caught up; nothing where it has.

    >>> in_words(1_200_000, 20_000.0)
    '1,200,000 rows behind, 20,000 fewer a second: caught up in 1 min'
    >>> in_words(1_200_000, -300.0)
    '1,200,000 rows behind, 300 more a second: it does not catch up at this rate'
    """
    if not behind or behind <= FEW:
        return ""
    if falls is None:
        return f"{behind:,} rows behind; how fast is not known yet"
    if (left := seconds_left(behind, falls)) is None:
        pace = f"{-falls:,.0f} more a second" if round(falls) < 0 else "hardly fewer"
        return f"{behind:,} rows behind, {pace}: it does not catch up at this rate"
    return f"{behind:,} rows behind, {falls:,.0f} fewer a second: caught up in {_span(left)}"


def of_pulse(pulse: Mapping[str, Any]) -> str:
    """Return the same from a heartbeat; nothing from that of an older version."""
    said = in_words(pulse.get("behind_rows"), pulse.get("falls"))
    size = pulse.get("size")
    if not said or not size:
        return said
    return f"{said} (batches of {size['rows']:,}: {size['why']})"


def _span(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{max(seconds, 1):.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds / DAY:.1f} days"
