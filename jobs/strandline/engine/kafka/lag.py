"""The offsets of a table's topics, and how far the table has read them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException

from strandline.core.errors import LakeError, TransientError
from strandline.core.table import Ingested, Table
from strandline.engine.kafka.slices import Backlog, Bounds, Part, name_of, part_of
from strandline.engine.kafka.topic_log import consumer
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Offsets, last_entry
from strandline.engine.lake.retired import fed


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


def ends_of(
    table: Table,
    lake: Lake,
    address: str,
    options: Mapping[str, str],
    asks: Consumer | None = None,
) -> dict[Part, Ends]:
    """Return the offsets of all partitions of a table's topics, from Kafka and the ledger.

    Args:
        table: The table.
        lake: The lake.
        address: Where Kafka is.
        options: Its client's options.
        asks: The client to ask with, which stays open; one for each topic when absent.
    """
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    read = newest[1].offsets if newest else {}
    # The sums say which topics are retired; once a second the newest entry must do, which names those that it read.
    known = {part_of(name)[0] for name in read}
    named = {each.rpartition("@")[0] for each in newest[1].stream.split(",")} if newest else set()
    topics = [each for each in table.topics if each.name in named or each.name not in known]
    backlog = Backlog(address, options, topics, map(part_of, read), asks)
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

    A table of which that cannot be known, as one whose topic was deleted, is left out, and hides no other; so is a retired one.

    Args:
        tables: Any tables; those that read no topic are passed over.
        lake: The lake.
        address: Where Kafka is; None where no broker runs.
        options: Its other settings.
    """
    found: dict[str, int] = {}
    if address is None:
        return found
    try:
        asks = consumer(address, options)
    except KafkaException:  # its options are wrong, for all tables alike
        return found
    try:
        for table in fed(tables, lake):
            try:
                if isinstance(table, Ingested) and lake.exists(table):
                    parts = ends_of(table, lake, address, options, asks)
                    found[table.id] = sum(part.lag for part in parts.values())
            except (TransientError, KafkaException):
                break  # a cluster that is away is away for all tables, and each would wait for it
            except Exception as error:
                # A topic that was deleted, a torn commit: one table's own, and reported with its books.
                if not isinstance(error, LakeError) and damage(error, table) is None:
                    raise
    finally:
        asks.close()
    return found


# The lag of bronze tables behind their topics, measured in a thread beside a stream's heartbeat.
#
# A query of a cluster that is away fails only after many seconds. If the heartbeat waited for it, it would stop, and a
# stream without a heartbeat is killed and started again.


EVERY = 1.0


class Gauge:
    """Keeps the last known lag of each table; None where the topic does not answer."""

    def __init__(
        self,
        tables: Sequence[Table],
        lake: Lake,
        *,
        address: Callable[[], str | None],
        options: Mapping[str, str],
        stop: threading.Event,
    ) -> None:
        """Prepare; no cluster is queried yet."""
        self._tables = tables
        self._lake = lake
        self._address = address
        self._options = options
        self._stop = stop
        self.lags: dict[str, int | None] = {table.id: None for table in tables}

    def start(self) -> None:
        """Measure again and again until the stream is stopped."""
        threading.Thread(target=self._measure, name="gauge", daemon=True).start()

    def _measure(self) -> None:
        while self._tables:
            for table in self._tables:
                self.lags[table.id] = self._lag(table)
            if self._stop.wait(self._lake.pause(EVERY)):
                return

    def _lag(self, table: Table) -> int | None:
        try:
            address = self._address()
            if address is None or not self._lake.exists(table):
                return None
            found = ends_of(table, self._lake, address, self._options)
        except Exception:  # noqa: BLE001  # a missing figure ends nothing; the table itself reports the error
            return None
        return sum(part.lag for part in found.values())
