"""The offsets of a table's topics, and how far the table has read them."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.core.table import Table
from jobs.engine.kafka.slices import Backlog, Bounds, Part, name_of
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Offsets, last_entry


@dataclass(frozen=True, slots=True)
class Ends:
    """The first retained offset of a partition, the one after the last, and the next one to read."""

    first: int
    end: int
    read: int

    @property
    def lag(self) -> int:
        """Return the number of unread offsets."""
        return self.end - self.read


def ends_of(table: Table, lake: Lake, address: str, options: Mapping[str, str]) -> dict[Part, Ends]:
    """Return the offsets of all partitions of a table's topics, from Kafka and the ledger."""
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    backlog = Backlog(address, options, table.topics)
    try:
        return ends(backlog.bounds(), newest[1].offsets if newest else {})
    finally:
        backlog.close()


def ends(bounds: Bounds, read: Offsets) -> dict[Part, Ends]:
    """Return for each partition its ends and how far it was read."""
    return {
        part: Ends(first, end, read.get(name_of(part), (0, first))[1])
        for part, (first, end) in bounds.items()
    }
