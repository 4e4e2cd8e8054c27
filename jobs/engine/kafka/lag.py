"""The offsets of a table's topics, and how far the table has read them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaException

from jobs.core.errors import LakeError
from jobs.core.table import Ingested, Table
from jobs.engine.kafka.slices import Backlog, Bounds, Part, name_of, part_of
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
    read = newest[1].offsets if newest else {}
    # The sums say which topics are retired; once a second the newest entry must do, which names those that it read.
    known = {part_of(name)[0] for name in read}
    named = {each.rpartition("@")[0] for each in newest[1].stream.split(",")} if newest else set()
    topics = [each for each in table.topics if each.name in named or each.name not in known]
    backlog = Backlog(address, options, topics, map(part_of, read))
    try:
        return ends(backlog.bounds(), read)
    finally:
        backlog.close()


def ends(bounds: Bounds, read: Offsets) -> dict[Part, Ends]:
    """Return for each partition its ends and how far it was read."""
    return {
        part: Ends(first, end, read.get(name_of(part), (0, first))[1])
        for part, (first, end) in bounds.items()
    }


def unread_offsets(
    tables: Sequence[Table], lake: Lake, address: str | None, options: Mapping[str, str]
) -> dict[str, int]:
    """Return by bronze table how many offsets it has not read, where Kafka answers.

    Args:
        tables: Any tables; those that read no topic are passed over.
        lake: The lake.
        address: Where Kafka is; None where no broker runs.
        options: Its other settings.
    """
    found: dict[str, int] = {}
    if address is None:
        return found
    # A cluster that is away is away for all tables, and each would wait for it.
    with suppress(LakeError, KafkaException):
        for table in tables:
            if isinstance(table, Ingested) and lake.exists(table):
                found[table.id] = sum(
                    part.lag for part in ends_of(table, lake, address, options).values()
                )
    return found
