"""The ways to run a table; no business logic knows which one runs it.

Four tiny values rather than flags, so that a mode carries exactly what it needs and ``match`` proves that
every reader of a mode has thought of all of them. Real-time mode joins them when the first alert does.
"""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Compute once over everything there is, and replace the table's rows atomically."""

    name: str = field(default="batch", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Catch up with what is there now, then stop.

    Args:
        max_offsets: Most Kafka records in one batch; no bound when absent.
    """

    max_offsets: int | None = None
    name: str = field(default="available-now", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Run always, a batch every so many seconds.

    Args:
        every: Seconds from the start of one batch to the start of the next.
        max_offsets: Most Kafka records in one batch, so that a backlog is worked off in slices.
    """

    every: float = 5.0
    max_offsets: int | None = 500_000
    name: str = field(default="micro-batch", init=False)


Mode: TypeAlias = Batch | AvailableNow | MicroBatch
