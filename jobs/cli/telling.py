"""What a stream without a terminal says of its tables: what has changed, and once a minute for what they wait.

A log that is written for months must not repeat what it said: twenty-one tables that rest said 15,000 lines an hour.
"""

import time
from collections.abc import Callable, Iterable

from jobs.run.host import Pulse

EVERY = 5.0
"""Seconds between two accounts of a table that commits."""

MINUTE = 60.0


class Telling:
    """Remembers what was said."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing said; ``note`` prints a line."""
        self._note = note
        self._clock = clock
        self._due = self._minute = clock()
        self._told: dict[str, tuple[int, str | None]] = {}
        self._waited: set[str] = set()

    def look(self, pulses: Iterable[Pulse]) -> None:
        """Say what is new of the tables."""
        found = list(pulses)
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            for pulse in found:
                self._account(pulse)
        self._absences(found)

    def _account(self, pulse: Pulse) -> None:
        now = (pulse.batches, pulse.gate)
        if not pulse.away and self._told.get(pulse.table) != now:
            self._told[pulse.table] = now
            self._note(line(pulse))

    def _absences(self, pulses: list[Pulse]) -> None:
        waiting: dict[str, list[str]] = {}
        for pulse in pulses:
            if pulse.away:
                waiting.setdefault(pulse.away, []).append(pulse.table)
        names = {name for each in waiting.values() for name in each}
        for name in sorted(self._waited - names):
            self._note(f"{name} goes on")
        self._waited &= names
        if names and self._clock() >= self._minute:
            self._minute = self._clock() + MINUTE
            self._waited = names
            told = (f"{_some(tables)}: {why}" for why, tables in waiting.items())
            self._note("waiting, and trying again: " + "; ".join(told))


def line(pulse: Pulse) -> str:
    """Say in a line how a table is doing."""
    lag = "?" if pulse.lag is None else f"{pulse.lag:,}"
    if pulse.gate is not None:
        return f"{pulse.gate}, lag {lag}"
    return (
        f"{pulse.table}: {pulse.batches} batches, {pulse.read:,} rows, {pulse.rate:,.0f} rows/s, "
        f"lag {lag}, watermark {pulse.watermark or 'none yet'}"
    )


def waits_for(pulse: Pulse) -> str:
    """Say in two words what a table waits for."""
    if pulse.gate:
        return "for its gate"
    return "for what is away" if pulse.away else ""


def _some(tables: list[str]) -> str:
    return tables[0] if len(tables) == 1 else f"{tables[0]} and {len(tables) - 1} more"
