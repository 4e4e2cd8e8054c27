"""What a project's play hands over: many records at once, and the counts that its tables must have of them.

A single record is a ``Record`` (jobs/strandline/core/topic.py); a play of millions gives ``Records``, because an object for each record
costs as much as sending it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from strandline.core.topic import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Consecutive records of one topic, as columns of one length.

    Args:
        topic: The topic.
        keys: Their keys.
        values: Their payloads.
        arrived_at: Their timestamps in milliseconds since 1970.
    """

    topic: str
    keys: Sequence[bytes]
    values: Sequence[bytes]
    arrived_at: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The records of a table by outcome.

    Args:
        good: The number of rows.
        duplicates: The number of copies of them.
        quarantined: The number of others, by their one reason.
    """

    good: int
    duplicates: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        """Return the sum of the counts of two topics of one table."""
        return Counts(
            good=self.good + other.good,
            duplicates=self.duplicates + other.duplicates,
            quarantined=dict(Counter(self.quarantined) + Counter(other.quarantined)),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the counts as JSON values."""
        reasons = dict(sorted(self.quarantined.items()))
        return {"good": self.good, "duplicates": self.duplicates, "quarantined": reasons}


Played: TypeAlias = Iterable[Record | Records]


@runtime_checkable
class Foreseen(Protocol):
    """Events of a play that knows what becomes of them."""

    def expected(self) -> Mapping[str, Counts]:
        """Return the counts of each table, by its id, for the records that were taken until now."""


@runtime_checkable
class Planned(Protocol):
    """Events of a play that says itself what was asked for."""

    def plan(self) -> Mapping[str, object]:
        """Return it by name; a moment or a span of time is Python's own."""
