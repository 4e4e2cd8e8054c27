"""The events of a plan as they are handed to who sends them, and what its tables must have of those that were taken."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from strandline import Counts, Records

from fleet.play.domain import Part
from fleet.play.plan import Plan
from fleet.play.player import CHUNK
from fleet.play.truth import Tally, counted


class Playing:
    """The events of a plan's sources, side by side."""

    def __init__(self, plan: Plan, parts: Sequence[Part], at_once: int = CHUNK) -> None:
        """Begin before the first event.

        Args:
            plan: The events.
            parts: Their sources.
            at_once: The number of events of all sources that are made together.
        """
        self._plan = plan
        self._at_once = at_once
        self._tallies = [(part, Tally()) for part in parts]

    def __iter__(self) -> Iterator[Records]:
        """Yield portions of all sources, each source spread over the whole run."""
        rounds = max(-(-self._plan.events // self._at_once), 1)
        for number in range(rounds):
            for part, tally in self._tallies:
                start, stop = (part.events * n // rounds for n in (number, number + 1))
                if stop == start:
                    continue
                chunk = part.player.chunk(start, stop)
                tally.add(chunk)
                yield Records(
                    topic=part.topic.name,
                    keys=chunk.keys,
                    values=chunk.values,
                    arrived_at=chunk.arrived_at,
                )

    def expected(self) -> Mapping[str, Counts]:
        """Return the counts that each table must have of the events that were taken until now."""
        return counted(self._tallies)

    def plan(self) -> Mapping[str, object]:
        """Return the plan."""
        return asdict(self._plan)
