"""The usual figures of a batch, from history, as bounds for a suite of Great Expectations.

They are read once an hour, because a range belongs to an hour of the week; ``strandline history`` and ``report``
bring history up to date. Without enough history there are no bounds, and a history that cannot be read has none
either: a stream must not stop for a warning.
"""

from collections.abc import Callable
from datetime import datetime

from strandline.core.table import Table
from strandline.engine.history.baseline import expected
from strandline.engine.history.queries import Past
from strandline.engine.storage.duckdb_table import UNREADABLE
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table
from strandline_quality.expectations import HELD_SHARE, VOLUME, Bounds

MEASURES = {VOLUME: ("read", 10.0), HELD_SHARE: ("share:quarantined", 0.02)}
"""Each figure's name in history, and the distance from the median that is always usual."""


class Usual:
    """The bounds for one table, kept for an hour."""

    def __init__(self, table: Table, lake: Lake, clock: Callable[[], datetime]) -> None:
        """Prepare; history is not read yet."""
        self._table = table
        self._lake = lake
        self._clock = clock
        self._hour: datetime | None = None
        self._bounds: Bounds = {}

    def bounds(self) -> Bounds:
        """Return the lowest and highest usual value of each figure that has enough points."""
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
        except UNREADABLE:
            return {}
        return {name: (each.low, each.high) for name, each in ranges.items() if each}
