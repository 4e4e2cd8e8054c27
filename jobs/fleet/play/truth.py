"""The counts that the lake must have for the events that were sent.

The truth describes one run into topics that hold nothing else. After a second run into the same topics, or
the same lake, the tables hold the sum of both; and a second run of the same plan adds only duplicates.
Gold is left out: its rows depend on which windows are closed.
"""

from collections import Counter
from collections.abc import Sequence

from strandline import Counts, Layer

from fleet.play.domain import Part
from fleet.play.player import Chunk


class Tally:
    """The counts of one source, added up chunk by chunk."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.events = 0
        self._duplicates = 0
        self._quarantined = Counter[str]()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk."""
        self.events += len(chunk.values)
        self._duplicates += chunk.duplicates
        self._quarantined += chunk.quarantined

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            good=self.events - self._duplicates - self._quarantined.total(),
            duplicates=self._duplicates,
            quarantined=dict(self._quarantined),
        )


def counted(tallies: Sequence[tuple[Part, Tally]]) -> dict[str, Counts]:
    """Return the exact counts of each table from the tallies of its sources."""
    tables: dict[str, Counts] = {}
    for part, tally in tallies:
        found = {Layer.BRONZE: Counts(good=tally.events), Layer.SILVER: tally.counts()}
        for layer, counts in found.items():
            name = f"{layer}.{part.table}"
            tables[name] = tables[name] + counts if name in tables else counts
    return tables
