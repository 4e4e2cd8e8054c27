"""What the lake must say about the events that were sent.

The truth describes one run into topics that hold nothing else. After a second run into the same topics, or
the same lake, the tables hold the sum of both; and a second run of the same plan is nothing but duplicates.
Gold is left out: what its windows hold depends on which of them are closed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.core.table import Layer
from jobs.play.domain import Part, readings
from jobs.play.plan import Plan
from jobs.play.player import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What becomes of the records of a table.

    Args:
        good: Rows of the table.
        duplicates: Copies of them.
        quarantined: The others, by their one reason.
    """

    good: int
    duplicates: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        """Put the counts of two topics of one table together."""
        return Counts(
            good=self.good + other.good,
            duplicates=self.duplicates + other.duplicates,
            quarantined=dict(Counter(self.quarantined) + Counter(other.quarantined)),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the counts in values that JSON knows."""
        reasons = dict(sorted(self.quarantined.items()))
        return {"good": self.good, "duplicates": self.duplicates, "quarantined": reasons}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The exact number of each kind in each table.

    Args:
        plan: What was asked for.
        topics: How many records were sent to each topic; fewer than planned after an interruption.
        tables: The counts by table.
    """

    plan: Plan
    topics: dict[str, int]
    tables: dict[str, Counts]

    @property
    def events(self) -> int:
        """Return how many records were sent in all."""
        return sum(self.topics.values())

    def as_dict(self) -> dict[str, object]:
        """Return the truth in values that JSON knows."""
        return {
            "plan": self.plan.as_dict(),
            "topics": self.topics,
            "events": self.events,
            "tables": {name: counts.as_dict() for name, counts in self.tables.items()},
        }


class Tally:
    """The truth about one source in the making: counts chunk by chunk what was handed over."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.events = 0
        self._duplicates = 0
        self._quarantined = Counter[str]()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk."""
        self.events += len(chunk.values)
        self._duplicates += chunk.duplicates
        self._quarantined += chunk.quarantined

    def counts(self) -> Counts:
        """Return what has been counted so far."""
        return Counts(
            good=self.events - self._duplicates - self._quarantined.total(),
            duplicates=self._duplicates,
            quarantined=dict(self._quarantined),
        )


def told(plan: Plan, tallies: Sequence[tuple[Part, Tally]]) -> Truth:
    """Put the tallies of a run together."""
    tables: dict[str, Counts] = {}
    for part, tally in tallies:
        counted = {Layer.BRONZE: Counts(good=tally.events), Layer.SILVER: tally.counts()}
        for layer, counts in counted.items():
            name = f"{layer}.{part.table}"
            tables[name] = tables[name] + counts if name in tables else counts
    topics = {part.topic.name: tally.events for part, tally in tallies}
    return Truth(plan=plan, topics=topics, tables=tables)


def truth(plan: Plan, parts: Sequence[Part] | None = None) -> Truth:
    """Return the truth about a plan without sending it; costs as much as making its events.

    Args:
        plan: Which events.
        parts: The sources; readings alone when absent.
    """
    tallies = [(part, Tally()) for part in (readings(plan) if parts is None else parts)]
    for part, tally in tallies:
        for chunk in part.player.chunks():
            tally.add(chunk)
    return told(plan, tallies)
