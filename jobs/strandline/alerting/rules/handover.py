"""From one set of rules to the next, at an offset: events before it meet the former rules, the others the new ones.

A query cannot change its plan, so another goes on at the checkpoint of the first. Between the checkpoint and the offset
at which the first was stopped there are events that the former rules have judged. They are judged again, by the former
rules: what these raise has the same ids. Were they judged by the new rules, a changed rule would raise a second alert,
of its new version, on an event that it has alerted on.

Threshold rules judge the events of their stages likewise (jobs/strandline/alerting/rules/live.py): a new version counts from the offset on,
and does not know what the former one has counted.

The offset is the end of the topics once the first query has stopped, so it is beyond every event that the first has
judged. Several changes may come between two checkpoints, so there is a list of stages; those before the checkpoint are
dropped at the next change.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, Self, TypeAlias, TypeVar

from pyspark.sql import DataFrame

from strandline.alerting.rules.alert import raised
from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.compile import quoted
from strandline.alerting.rules.threshold_rule import ThresholdRule

Rule: TypeAlias = AlertRule | ThresholdRule
R = TypeVar("R", bound=Rule)

Offsets = Mapping[tuple[str, int], int]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[R]):
    """Rules, and the offsets of the first events that they judge; of every event where there is none."""

    rules: tuple[R, ...]
    since: Offsets


@dataclass(frozen=True, slots=True)
class Staged(Generic[R]):
    """Rules in stages, of which the last has those that run."""

    stages: tuple[Stage[R], ...]

    @property
    def every(self) -> list[R]:
        """Return the rules of all stages, each version once."""
        every = {(rule.id, rule.version): rule for stage in self.stages for rule in stage.rules}
        current = {(rule.id, rule.version): rule for rule in self.stages[-1].rules}
        return [*{**every, **current}.values()]

    def then(self, rules: Sequence[R], *, since: Offsets, done: Offsets) -> Self:
        """Return the same with other rules from an offset on.

        Args:
            rules: The other rules.
            since: The offsets of the first events that they judge.
            done: The offsets of the checkpoint; stages that ended before them are not needed.
        """
        added = Stage(rules=tuple(rules), since=since)
        return replace(self, stages=(*self.from_offsets(done).stages, added))

    def from_offsets(self, done: Offsets) -> Self:
        """Return the same without the stages that ended before some offsets."""
        needed = [
            stage
            for stage, after in pairwise(self.stages)
            if any(done.get(part, 0) < end for part, end in after.since.items())
        ]
        return replace(self, stages=(*needed, self.stages[-1]))

    def of_their_stage(self, found: DataFrame) -> DataFrame:
        """Keep what rules find in events of their own stages.

        Args:
            found: Rows with ``rule_id`` and ``rule_version``, and ``event_topic``, ``event_partition`` and ``event_offset``.
        """
        for condition in self._conditions():
            found = found.where(condition)
        return found

    def _conditions(self) -> Iterator[str]:
        """Yield SQL that each row must satisfy: a rule that is not in all stages finds events of its own only."""
        stages = defaultdict(list)
        for number, stage in enumerate(self.stages):
            for rule in stage.rules:
                stages[rule.version, rule.id].append(number)
        together = defaultdict(list)
        for name, numbers in stages.items():
            if len(numbers) < len(self.stages):
                together[tuple(numbers)].append(" ".join(name))
        for own, names in together.items():
            listed = ", ".join(map(quoted, names))
            within = " OR ".join(self._within(number) for number in own)
            yield f"concat(rule_version, ' ', rule_id) NOT IN ({listed}) OR {within}"

    def _within(self, number: int) -> str:
        begun = f"NOT {_is_before(self.stages[number].since)}"
        if number + 1 == len(self.stages):
            return f"({begun})"
        return f"({begun} AND {_is_before(self.stages[number + 1].since)})"


class Raising(Staged[AlertRule]):
    """The function of a feed of pattern rules."""

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Return the alerts on believed rows."""
        return self.of_their_stage(raised(rows, self.every))


def _is_before(since: Offsets) -> str:
    parts = (
        f"(event_topic = {quoted(topic)} AND event_partition = {partition} AND event_offset < {offset}L)"
        for (topic, partition), offset in sorted(since.items())
    )
    return f"({' OR '.join(['false', *parts])})"
