"""What backfills and replays brought into a judged table, of rows that had been held back or dropped.

The entry of a backfill says what changed: so many good rows more, so many held ones less, and what is left over counts
as copies. Of rows that the watermark had dropped nobody knows that they were, so they are left over: a lake in which a
backfill brought 50 of them in showed 50 dropped rows and -50 copies. The sum was right, and no reader could tell why.

A row that came and leaves less than no copies was dropped before. Where one backfill both brings dropped rows in and
holds copies back, the ledger cannot tell the two apart, and both count as the former.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.run.ledger import Entry


@dataclass(frozen=True, slots=True)
class Healed:
    """How many rows are in a table that were not.

    Args:
        rows: All of them.
        dropped: Those among them that the watermark had dropped.
    """

    rows: int
    dropped: int


def healed(told: Iterable[Entry]) -> Healed:
    """Count what the entries of a judged table's backfills and replays brought in."""
    rows = back = dropped = 0
    for entry in told:
        dropped += entry.dropped_by_watermark
        if entry.is_backfill:
            rows += max(0, entry.good)
            back += min(max(0, -entry.duplicates), entry.came)
    return Healed(rows, min(back, dropped))
