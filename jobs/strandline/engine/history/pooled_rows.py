"""With what a small batch is judged: the rows of the batches before it, and what is usual for its table.

The rows with which a small batch is judged: its own, and those of the batches before it.

A stream that splits a bad hour into batches of ten must be stopped, although each of them proves little. So a batch of
fewer than a hundred rows is judged together with the batches before it, the newest first, until there are a hundred
rows.

That pool once let a batch of 60 rows, 30 of them bad, pass a limit of a fifth, for two reasons that are excluded now:

* Rows from before a rule was written or changed prove nothing about it. An entry has the fingerprint of the rules
  by which it was judged, and only batches with today's rules count.
* Good rows of an hour ago must not hide bad ones of now. So a batch is also judged by itself where more than ``FEW``
  of its own rows break a rule: that many are proof without other batches.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from strandline.core.table import Table
from strandline.engine.history.queries import Past, expected
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entry_at, is_table, latest_version
from strandline.engine.lake.read.duckdb_table import UNREADABLE
from strandline_quality.expectations import HELD_SHARE, UNREAD, VOLUME, Bounds, Finding
from strandline_quality.rules import FEW

TOGETHER = 100
"""How many rows are judged together where a batch has fewer."""

LOOKED_BACK = 1_000
"""How many commits are searched for them, so a start costs the same after a year."""


@dataclass(slots=True)
class Tally:
    """The counts of one or several batches, by the rules that their rows break.

    Args:
        good: Good rows.
        held: The other rows, by the reason under which the ledger counts them.
        broke: Rows by every rule or reason that they break.
        newest: The newest event time among the good rows.
        items: The items of the good rows, where the table makes rows of lists.
    """

    good: int = 0
    held: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None
    items: int | None = None

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.good + self.held.total()


class Recent:
    """The last batches of a table that passed, as many as a small batch is judged with."""

    def __init__(self) -> None:
        """Begin with none."""
        self._batches = deque[Tally]()

    @classmethod
    def of(cls, path: Place, rules: str) -> "Recent":
        """Read them from the ledger, so a restart forgets nothing.

        Args:
            path: The table.
            rules: Fingerprint of today's rules; a batch that was judged by other rules ends the search.
        """
        recent = cls()
        newest = latest_version(path) if is_table(path) else -1
        for version in range(newest, max(-1, newest - LOOKED_BACK), -1):
            entry = entry_at(path, version)
            if entry is None or entry.is_backfill or entry.opened or not entry.read:
                continue
            if entry.replaced or entry.rules != rules or recent._rows >= TOGETHER:
                break
            held, broke = Counter(entry.quarantined), Counter(entry.broke)
            recent._batches.appendleft(Tally(good=entry.good, held=held, broke=broke))
        return recent

    def add(self, batch: Tally) -> None:
        """Add a batch that passed, and drop those that no small batch needs any more."""
        self._batches.append(batch)
        while self._rows - self._batches[0].rows >= TOGETHER:
            self._batches.popleft()

    def with_(self, batch: Tally) -> Tally | None:
        """Return a small batch together with those before it; None when it is judged only by itself."""
        if batch.rows >= TOGETHER or not self._batches:
            return None
        pool = Tally()
        for each in (*self._batches, batch):
            pool.good += each.good
            pool.held += each.held
            pool.broke += each.broke
        return pool

    @property
    def _rows(self) -> int:
        return sum(each.rows for each in self._batches)


def proves(finding: Finding, batch: Tally) -> bool:
    """Return whether a batch alone has enough bad rows for a finding; half of a batch of two proves nothing."""
    unread = sum(batch.broke[why] for why in UNREAD)
    return (unread if finding.name == "unread" else finding.failed) > FEW


# The usual figures of a batch, from history, as bounds for a suite of Great Expectations.
#
# They are read once an hour, because a range belongs to an hour of the week; ``strandline history`` and ``report``
# bring history up to date. Without enough history there are no bounds, and a history that cannot be read has none
# either: a stream must not stop for a warning.


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
