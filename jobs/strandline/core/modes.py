"""The ways to run a table or a feed; no business logic knows which one runs it.

Tiny values rather than flags, so that a mode carries exactly what it needs and ``match`` proves that every reader of a
mode handles all of them.

A table has rows in the lake, and its modes are ``Mode``. A feed (jobs/strandline/core/feed.py) goes from Kafka to Kafka without
state, so it also runs in the two modes in which Spark answers event by event; its modes are ``FeedMode``. They are
two unions because no table could run in real time: Spark has no sink there that commits rows to the lake.
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
        max_offsets: The most records in one batch; chosen from what is measured when absent.
    """

    max_offsets: int | None = None
    name: str = field(default="available-now", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Run always, a batch every so many seconds.

    Args:
        every: Seconds from the start of one batch to the start of the next.
        max_offsets: The most records in one batch; chosen from what is measured when absent.
    """

    every: float = 5.0
    max_offsets: int | None = None
    name: str = field(default="micro-batch", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTime:
    """Answer each event at once, by tasks that run for as long as a batch lasts.

    Args:
        every: Seconds from checkpoint to checkpoint. What was answered since the last one is answered again after a
            crash, and at each one the answers pause; at least five.
    """

    every: float = 300.0
    name: str = field(default="real-time", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Answer each event at once, by Spark's older engine: its tasks never end, and offsets are noted beside them.

    Args:
        every: Seconds from checkpoint to checkpoint.
    """

    every: float = 1.0
    name: str = field(default="continuous", init=False)


Mode: TypeAlias = Batch | AvailableNow | MicroBatch
FeedMode: TypeAlias = RealTime | Continuous | MicroBatch | AvailableNow
