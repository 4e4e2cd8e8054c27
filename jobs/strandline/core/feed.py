"""A feed: a topic whose records are computed from those of other topics, without the lake in between.

It reads what judged tables are filled from, judges each event by its table's own function and rules, and gives the
believed rows to a function. That of an ``EventFeed`` keeps no state, so it runs in every mode. That of a ``CountingFeed``
counts in state, so it runs in micro-batches. The records that come out go to a topic; a bronze table reads that
topic as any other, which is how they get into the lake.

Why it is no kind of table: it has no rows in the lake. Whatever a table is asked for (its version, a backfill, an
audit, a certificate) a feed could only refuse. It has what a stream needs: a lease, a checkpoint, and a ledger
(jobs/strandline/engine/flow/feed_ledger.py).

Why one judged table an event feed: real-time mode reads no source twice in a union, and continuous mode has no union at all.

What an event is judged by is what it says itself, its arrival included. Two reasons depend on the reader
(``from_the_future`` and ``disordered``, jobs/strandline/core/lateness.py). An event feed believes such events: they are held in silver,
and admitted there by a replay. In a counting feed they would move the watermark, below which its state drops events. So it
judges ``from_the_future`` by the clock of its batch, as bronze does by that of its commit. An event that arrived too late
behind others moves no watermark; where it is below one it is dropped, which the ledger names and calls a fault
(jobs/strandline/engine/flow/feed_query.py).

No feed remembers copies, so a record has an id that follows from its event, and copies of it have the same.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame

from strandline.core.table import Judged
from strandline.core.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Records of a topic, computed from the believed events of judged tables.

    Args:
        name: What its checkpoint, its ledger and its log are found by.
        key: The column that identifies a record; copies of an event make records of one key.
        to: The topic of its records.
        version: What changes with the function.
    """

    layer: ClassVar[str] = "live"

    name: str
    key: str
    to: Topic
    version: str = ""

    @property
    @abstractmethod
    def tables(self) -> tuple[Judged, ...]:
        """Return the tables whose events it reads."""

    @property
    def id(self) -> str:
        """Return the one name."""
        return f"{self.layer}.{self.name}"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that it reads: those of the tables' sources."""
        return tuple(topic for table in self.tables for topic in topics_of(table))

    def __str__(self) -> str:
        """Return the one name."""
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFeed(Feed):
    """A feed whose records are computed from one event each.

    Args:
        of: The table.
        transform: The function from believed rows to the columns of its records; no state, no Python.
    """

    of: Judged
    transform: Callable[[DataFrame], DataFrame] = field(compare=False)

    @property
    def tables(self) -> tuple[Judged, ...]:
        """Return the table."""
        return (self.of,)


class Counts(Protocol):
    """The function of a feed that counts."""

    def __call__(self, tables: Sequence[DataFrame]) -> DataFrame:
        """Return the columns of its records, from the believed rows of each table."""
        ...

    def waiting(self, tables: Sequence[DataFrame | None]) -> DataFrame:
        """Return the rows that it keeps in state, with their ``time``; of a table that is None there are none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingFeed(Feed):
    """A feed whose records are computed from several events, which wait in state.

    Args:
        of: The tables; a feed of the same name always has the same, because its checkpoint has a source for each.
        transform: The function from believed rows of each table, with their watermark, to the columns of its records.
    """

    of: tuple[Judged, ...]
    transform: Counts = field(compare=False)

    @property
    def tables(self) -> tuple[Judged, ...]:
        """Return the tables."""
        return self.of


def topics_of(table: Judged) -> tuple[Topic, ...]:
    """Return the topics from which a judged table is filled."""
    return tuple(topic for source in table.upstream for topic in source.topics)
