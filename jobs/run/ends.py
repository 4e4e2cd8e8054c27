"""How far a table's topics go, and how far it has read them."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.core.table import Table
from jobs.run.backlog import Backlog, Bounds, Part, name_of
from jobs.run.lake import Lake
from jobs.run.ledger import Offsets, last_entry


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset of a partition that is still there, the one after the last, and the next one to read."""

    first: int
    end: int
    read: int

    @property
    def lag(self) -> int:
        """Return how many offsets have not been read."""
        return self.end - self.read


def ends_of(table: Table, lake: Lake, address: str, options: Mapping[str, str]) -> dict[Part, Ends]:
    """Ask Kafka and the ledger about all partitions of a table's topics."""
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    backlog = Backlog(address, options, table.topics)
    try:
        return ends(backlog.bounds(), newest[1].offsets if newest else {})
    finally:
        backlog.close()


def ends(bounds: Bounds, read: Offsets) -> dict[Part, Ends]:
    """Say of each partition how far it goes and how far it was read."""
    return {
        part: Ends(first, end, read.get(name_of(part), (0, first))[1])
        for part, (first, end) in bounds.items()
    }
