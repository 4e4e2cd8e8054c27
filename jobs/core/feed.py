"""A feed: a topic whose records are computed from those of other topics, event by event, without the lake in between.

It reads what a judged table is filled from, judges each event by that table's own function and rules, and gives the
believed rows to a function that keeps no state. The records that come out go to a topic; a bronze table reads that
topic as any other, which is how they get into the lake.

Why it is no kind of table: it has no rows in the lake. Whatever a table is asked for (its version, a backfill, an
audit, a certificate) a feed could only refuse. It has what a stream needs: a lease, a checkpoint, and a ledger
(jobs/engine/pipeline/feed_ledger.py).

Why one judged table a feed: real-time mode reads no source twice in a union, and continuous mode has no union at all.

What an event is judged by is what it says itself, its arrival included. The two reasons that depend on the reader
(``from_the_future`` and ``disordered``, jobs/core/lateness.py) are of a commit of bronze, and a feed does not wait for
one: such events are believed here, held in silver, and admitted there by a replay. Nor does a feed remember copies, so
a record has an id that follows from its event, and copies of it have the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame

from jobs.core.table import Judged
from jobs.core.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Records of a topic, computed from the believed events of a judged table.

    Args:
        name: What its checkpoint, its ledger and its log are found by.
        of: The table.
        transform: The function from believed rows to the columns of its records; no state, no Python.
        key: The column that identifies a record; copies of an event make records of one key.
        to: The topic of its records.
        version: What changes with the function.
    """

    layer: ClassVar[str] = "live"

    name: str
    of: Judged
    transform: Callable[[DataFrame], DataFrame] = field(compare=False)
    key: str
    to: Topic
    version: str = ""

    @property
    def id(self) -> str:
        """Return the one name."""
        return f"{self.layer}.{self.name}"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that it reads: those of the table's source."""
        return tuple(topic for source in self.of.upstream for topic in source.topics)

    def __str__(self) -> str:
        """Return the one name."""
        return self.id
