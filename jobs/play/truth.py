"""The counts that the lake must have for the events that were sent.

The truth describes one run into topics that hold nothing else. After a second run into the same topics, or
the same lake, the tables hold the sum of both; and a second run of the same plan adds only duplicates.
Gold is left out: its rows depend on which windows are closed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from strandline import Counts, Layer

from jobs.play.domain import Part, readings
from jobs.play.plan import Plan
from jobs.play.player import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The exact counts of each table.

    Args:
        plan: The plan of the run.
        topics: The number of records sent to each topic; fewer than planned after an interrupt.
        tables: The counts by table.
    """

    plan: Plan
    topics: dict[str, int]
    tables: dict[str, Counts]

    @property
    def events(self) -> int:
        """Return the number of records sent to all topics."""
        return sum(self.topics.values())

    def as_dict(self) -> dict[str, object]:
        """Return the truth as JSON values."""
        return {
            "plan": self.plan.as_dict(),
            "topics": self.topics,
            "events": self.events,
            "tables": {name: counts.as_dict() for name, counts in self.tables.items()},
        }


class Tally:
    """The counts of one source, added up chunk by chunk."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.events = 0
        self._duplicates = 0
        self._quarantined = Counter[str]()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk."""
        self.events += len(chunk.values)
        self._duplicates += chunk.duplicates
        self._quarantined += chunk.quarantined

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            good=self.events - self._duplicates - self._quarantined.total(),
            duplicates=self._duplicates,
            quarantined=dict(self._quarantined),
        )


def summed(plan: Plan, tallies: Sequence[tuple[Part, Tally]]) -> Truth:
    """Return the truth of a run from the tallies of its sources."""
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
        plan: The events.
        parts: The sources; readings only when absent.
    """
    tallies = [(part, Tally()) for part in (readings(plan) if parts is None else parts)]
    for part, tally in tallies:
        for chunk in part.player.chunks():
            tally.add(chunk)
    return summed(plan, tallies)
