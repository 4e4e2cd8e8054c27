"""What history says a batch usually is, as the bounds that a suite of Great Expectations is given.

Asked once an hour, because a range belongs to an hour of the week; ``strandline history`` and ``report`` are what
brings history up to date. While there is little of it nothing is expected, and what cannot be read expects nothing
either: a warning is not worth a stream that stops.
"""

from collections.abc import Callable
from datetime import datetime

import duckdb
from deltalake.exceptions import DeltaError

from jobs.core.table import Table
from jobs.run.expected import expected
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from jobs.run.past import Past
from quality.expectations import HELD_SHARE, VOLUME, Bounds

MEASURES = {VOLUME: ("read", 10.0), HELD_SHARE: ("share:quarantined", 0.02)}
"""Each figure's name in history, and how far from the middle it is usual whatever was before."""


class Usual:
    """What is usual for one table, remembered for an hour."""

    def __init__(self, table: Table, lake: Lake, clock: Callable[[], datetime]) -> None:
        """Ask nothing yet."""
        self._table = table
        self._lake = lake
        self._clock = clock
        self._hour: datetime | None = None
        self._bounds: Bounds = {}

    def bounds(self) -> Bounds:
        """Return the least and the most of each figure; nothing of one of which too little is known."""
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
        except (duckdb.Error, DeltaError, OSError):
            return {}
        return {name: (each.low, each.high) for name, each in ranges.items() if each}
