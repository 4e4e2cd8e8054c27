"""The ways to run a table; no business logic knows which one runs it.

Four tiny values rather than flags, so that a mode carries exactly what it needs and ``match`` proves that
every reader of a mode handles all of them. Real-time mode will be added with the first alert.
"""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Compute once over all rows, and replace the table's rows atomically."""

    name: str = field(default="batch", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Read the backlog that is there now, then stop.

    Args:
        max_offsets: The most Kafka records in one batch; no bound when absent.
    """

    max_offsets: int | None = None
    name: str = field(default="available-now", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Run always, a batch every so many seconds.

    Args:
        every: Seconds from the start of one batch to the start of the next.
        max_offsets: The most Kafka records in one batch, so that a backlog is read in slices.
    """

    every: float = 5.0
    max_offsets: int | None = 500_000
    name: str = field(default="micro-batch", init=False)


Mode: TypeAlias = Batch | AvailableNow | MicroBatch
