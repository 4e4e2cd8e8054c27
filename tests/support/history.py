"""When the batches of a history were, and which rows each of them brought."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """How old a lake becomes.

    Args:
        commits: Batches of bronze.
        each: How many of them a batch of silver reads; a batch of gold reads one of silver.
        until: When the last of them was.
        every: The time from batch to batch.
    """

    commits: int
    each: int
    until: datetime
    every: timedelta

    def at(self, batch: int) -> datetime:
        """Return when a batch of bronze was."""
        return self.until - self.every * (self.commits - batch)


@dataclass(slots=True, kw_only=True)
class Pieces:
    """The rows of a table, batch by batch.

    Args:
        rows: All of them, those of a batch together.
        begins: Where each batch begins, and at the end how many there are.
    """

    rows: pa.Table
    begins: Sequence[int]

    def of(self, batch: int) -> pa.Table:
        """Return the rows of a batch."""
        first, end = self.begins[batch], self.begins[batch + 1]
        return self.rows.slice(first, end - first)
