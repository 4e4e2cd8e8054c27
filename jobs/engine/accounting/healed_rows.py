"""The rows that backfills and replays added to a judged table, which had been held back or dropped before.

The entry of a backfill counts changes: how many good rows more, how many held rows fewer, and the rest counts as
copies. No entry names the rows that the watermark had dropped, so they fall into that rest: a lake in which a backfill
added 50 of them showed 50 dropped rows and -50 copies. The sum was right, but no reader understood it.

So an added row that makes the number of copies negative counts as dropped before. Where one backfill both adds dropped
rows and holds copies back, the ledger cannot distinguish the two, and both count as dropped.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.engine.storage.ledger import Entry


@dataclass(frozen=True, slots=True)
class Healed:
    """The number of rows that were added.

    Args:
        rows: All of them.
        dropped: Those that the watermark had dropped.
    """

    rows: int
    dropped: int


def healed(found: Iterable[Entry]) -> Healed:
    """Count the rows that backfills and replays added to a judged table, from its entries."""
    rows = back = dropped = 0
    for entry in found:
        dropped += entry.dropped_by_watermark
        if entry.is_backfill:
            rows += max(0, entry.good)
            back += min(max(0, -entry.duplicates), entry.came)
    return Healed(rows, min(back, dropped))
