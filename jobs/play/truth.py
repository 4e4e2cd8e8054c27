"""What the lake must say about the events that were sent.

The truth describes one run into a topic that holds nothing else. After a second run into the same topic, or
the same lake, the tables hold the sum of both; and a second run of the same plan is nothing but duplicates.
Gold is left out: what its windows hold depends on which of them are closed.
"""

from collections import Counter
from dataclasses import dataclass, field

from jobs.bronze import device_telemetry as bronze
from jobs.play.plan import Plan
from jobs.play.telemetry import Chunk, Fleet
from jobs.silver import device_telemetry as silver


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

    def as_dict(self) -> dict[str, object]:
        """Return the counts in values that JSON knows."""
        reasons = dict(sorted(self.quarantined.items()))
        return {"good": self.good, "duplicates": self.duplicates, "quarantined": reasons}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The exact number of each kind in each table.

    Args:
        plan: What was asked for.
        topic: Where it was sent.
        events: How many records were sent; fewer than planned after an interruption.
        tables: The counts by table.
    """

    plan: Plan
    topic: str
    events: int
    tables: dict[str, Counts]

    def as_dict(self) -> dict[str, object]:
        """Return the truth in values that JSON knows."""
        return {
            "plan": self.plan.as_dict(),
            "topic": self.topic,
            "events": self.events,
            "tables": {name: counts.as_dict() for name, counts in self.tables.items()},
        }


class Tally:
    """The truth in the making: counts chunk by chunk what was handed over."""

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

    def truth(self, plan: Plan, topic: str) -> Truth:
        """Return what has been counted so far."""
        good = self.events - self._duplicates - self._quarantined.total()
        return Truth(
            plan=plan,
            topic=topic,
            events=self.events,
            tables={
                bronze.TABLE.id: Counts(good=self.events),
                silver.TABLE.id: Counts(
                    good=good,
                    duplicates=self._duplicates,
                    quarantined=dict(self._quarantined),
                ),
            },
        )


def truth(plan: Plan) -> Truth:
    """Return the truth about a plan without sending it; costs as much as making its events."""
    tally = Tally()
    for chunk in Fleet(plan).chunks():
        tally.add(chunk)
    return tally.truth(plan, bronze.TABLE.topic.name)
