"""The log of a stream without a terminal: progress when there is some, waiting tables once a minute, each failure.

A log that is written for months must not repeat itself: twenty-one idle tables wrote 15,000 lines an hour.
"""

import time
from collections.abc import Callable, Iterable

from jobs.engine.service.stream_host import Pulse

EVERY = 5.0
"""Seconds between two lines about a table that commits."""

MINUTE = 60.0


class StreamLog:
    """Prints what is new; remembers what it printed."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing printed; ``note`` prints a line."""
        self._note = note
        self._clock = clock
        self._due = self._minute = clock()
        self._printed: dict[str, tuple[int, str | None]] = {}
        self._waited: set[str] = set()
        self._failures: dict[str, int] = {}

    def look(self, pulses: Iterable[Pulse]) -> None:
        """Print what is new of the tables."""
        found = list(pulses)
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            for pulse in found:
                self._account(pulse)
        self._absences(found)
        for pulse in found:
            self._failure(pulse)

    def _account(self, pulse: Pulse) -> None:
        now = (pulse.batches, pulse.gate)
        if not (pulse.away or pulse.failing) and self._printed.get(pulse.table) != now:
            self._printed[pulse.table] = now
            self._note(line(pulse))

    def _failure(self, pulse: Pulse) -> None:
        """Print each failure as it happens, and its end."""
        found = pulse.failing
        before = self._failures.pop(pulse.table, 0)
        if found is None:
            if before:
                self._note(f"{pulse.table} goes on")
            return
        self._failures[pulse.table] = found.tries
        if found.tries != before:
            self._note(
                f"{fails(pulse.table, found.tries, found.says)}; the other tables go on, and it is tried again in "
                f"{found.pause:,.0f} s\n  hint: {found.hint}"
            )

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
            reasons = (f"{_some(tables)}: {why}" for why, tables in waiting.items())
            self._note("waiting, and trying again: " + "; ".join(reasons))


def line(pulse: Pulse) -> str:
    """Return the progress of a table as a line."""
    lag = "?" if pulse.lag is None else f"{pulse.lag:,}"
    if pulse.gate is not None:
        return f"{pulse.gate}, lag {lag}"
    return (
        f"{pulse.table}: {pulse.batches} batches, {pulse.read:,} rows, {pulse.rate:,.0f} rows/s, "
        f"lag {lag}, watermark {pulse.watermark or 'none yet'}"
    )


def waits_for(pulse: Pulse) -> str:
    """Return in a few words what a table waits for."""
    if pulse.gate:
        return "for its gate"
    if pulse.away:
        return "for what is away"
    return f"to be tried again: {pulse.failing.says}" if pulse.failing else ""


def fails(table: str, tries: int, says: str) -> str:
    """Return the failure of a table as a sentence."""
    return f"{table} has failed {tries:,} times in a row: {says}"


def _some(tables: list[str]) -> str:
    return tables[0] if len(tables) == 1 else f"{tables[0]} and {len(tables) - 1} more"
