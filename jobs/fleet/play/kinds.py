"""The kind of each event, its arrival and its event time.

An event is identified by its number. Kind, arrival, device and times are functions of the number alone, so that
chunks of any size give the same stream, and a copy is made by making its original again.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fleet.play.chance import Chance, Numbers, parts
from fleet.play.plan import MILLISECOND, Plan

MARGIN = 5_000
"""The milliseconds between an event and the bounds of the lateness, unless it is exactly on one."""

COPY_WITHIN = 300_000
"""Milliseconds within which a copy usually follows its original."""

ORIGINAL_TRIES = 8
SIX_HOURS = 6 * 3_600_000


class Kind(IntEnum):
    """The kind of an event; each event has one."""

    MALFORMED = 0
    DUPLICATE = 1
    LATE = 2
    EARLY = 3
    UNKNOWN_FIELD = 4
    WRONG_TYPE = 5
    MISSING = 6
    IMPLAUSIBLE = 7
    GOOD = 8


BELIEVED = np.array([Kind.UNKNOWN_FIELD, Kind.GOOD])


class Story:
    """The kind, arrival and time of each event of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Compute the bounds that the draws are compared with."""
        self.plan = plan
        self.chance = Chance(plan.seed)
        self._late = plan.late // MILLISECOND
        self._early = plan.early // MILLISECOND
        self._kinds = parts(
            [
                plan.malformed,
                plan.duplicate,
                plan.late_share,
                plan.early_share,
                plan.unknown_field,
                plan.wrong_type,
                plan.missing,
                plan.implausible,
            ]
        )

    def arrived_at(self, numbers: Numbers) -> Numbers:
        """Return the arrivals in milliseconds; a larger number never arrives before a smaller one."""
        span, events = self.plan.span_ms, self.plan.events
        within = self.chance.below(span, "arrival", numbers)
        return self.plan.since_ms + (numbers * span + within) // events

    def kinds(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the kind of each event, and the number of the event whose payload it carries.

        A copy without an original within the lateness becomes an ordinary good event.
        """
        kinds = self.drawn(numbers)
        sources = numbers.copy()
        rows = np.flatnonzero(kinds == Kind.DUPLICATE)
        originals = self._originals(numbers[rows])
        has_original = originals >= 0
        sources[rows[has_original]] = originals[has_original]
        kinds[rows[~has_original]] = Kind.GOOD
        return kinds, sources

    def drawn(self, numbers: Numbers) -> Numbers:
        """Return the kind that was drawn for each event, whether or not a copy has an original."""
        return self.chance.pick(self._kinds, "kind", numbers)

    def happened_at(self, numbers: Numbers, kinds: Numbers) -> Numbers:
        """Return the event times in milliseconds: within the lateness, or beyond it for late and early kinds."""
        believed = np.clip(
            self.usual_delay(numbers),
            min(MARGIN - self._early, 0),
            max(self._late - MARGIN, 0),
        )
        on_bound = self.chance.below(20_000, "on the bound", numbers)
        is_good = kinds == Kind.GOOD
        believed[is_good & (on_bound == 0)] = self._late
        believed[is_good & (on_bound == 1)] = -self._early
        beyond = MARGIN + self.chance.below(SIX_HOURS, "beyond", numbers)
        delay = np.select(
            [kinds == Kind.LATE, kinds == Kind.EARLY],
            [self._late + beyond, -self._early - beyond],
            believed,
        )
        return self.arrived_at(numbers) - delay

    def usual_delay(self, numbers: Numbers) -> Numbers:
        """Return mostly seconds, sometimes minutes (a device out of reach), sometimes a fast clock.

        A source overrides this when its events answer those of another.
        """
        x = self.chance.below(1 << 16, "delay", numbers)
        seconds = 20 + (x * x * x >> 32) * 30_000 // (1 << 16)
        minutes = 60_000 + self.chance.below(max(self._late // 3, 1), "outage", numbers)
        ahead = -self.chance.below(60_000, "fast clock", numbers)
        manner = self.chance.below(1_000, "manner", numbers)
        return np.select([manner < 30, manner < 40], [minutes, ahead], seconds)  # noqa: PLR2004  # 3 % and 1 %

    def _originals(self, copies: Numbers) -> Numbers:
        """Return the event that each copy repeats, or -1."""
        plan = self.plan
        near = max(plan.events * COPY_WITHIN // plan.span_ms, 1)
        x = self.chance.below(1 << 16, "how far back", copies)
        back = 1 + (x * x >> 16) * near // (1 << 16)
        candidates = copies - 1 - (back - 1) % np.maximum(copies, 1)
        # Half of the copies choose from few originals, so that some originals are repeated more than once.
        is_again = self.chance.below(2, "again", copies) == 0
        candidates[is_again] -= candidates[is_again] % 16
        earliest = self.arrived_at(copies) - self._late + MARGIN
        originals = np.full_like(copies, -1)
        for step in range(ORIGINAL_TRIES):
            tried = candidates - step
            kinds = self.drawn(tried)
            fits = (
                self._is_believed(kinds)
                & (tried >= 0)
                & (tried < copies)
                & (self.happened_at(tried, kinds) >= earliest)
                & (originals < 0)
            )
            originals[fits] = tried[fits]
        return originals

    @staticmethod
    def _is_believed(kinds: Numbers) -> NDArray[np.bool_]:
        return np.isin(kinds, BELIEVED)
