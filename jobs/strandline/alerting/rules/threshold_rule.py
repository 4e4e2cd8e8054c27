"""A rule that counts events, or waits for several kinds of them, by key and within a time: Sigma's correlation, as a value.

It has the frame of a pattern rule (jobs/strandline/alerting/rules/alert_rule.py) and, in the place of a condition, pattern rules that find its
events. ``jobs/strandline/alerting/rules/windows.py`` defines exactly when it fires.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from strandline.alerting.rules.alert_rule import AlertRule, Event, Severity
from strandline.alerting.source import AlertSource
from strandline.core.errors import DefinitionError


class Counted(StrEnum):
    """What is counted, in Sigma's words."""

    EVENTS = "event_count"
    VALUES = "value_count"
    """Distinct values of a column; NULL is none."""
    KINDS = "temporal"
    """The rules, of several, that found an event."""
    STEPS = "temporal_ordered"
    """All rules, one after the other, each by an event of its own."""


class Comparison(StrEnum):
    """How what is counted compares with the number of the rule."""

    AT_LEAST = "gte"
    ABOVE = "gt"
    BELOW = "lt"
    AT_MOST = "lte"
    IS = "eq"
    IS_NOT = "neq"

    @property
    def grows(self) -> bool:
        """Return whether more events can only make it true, so that it is known before the window is over."""
        return self in {Comparison.AT_LEAST, Comparison.ABOVE}

    def holds(self, found: int, number: int) -> bool:
        """Return whether it holds."""
        return {
            Comparison.AT_LEAST: found >= number,
            Comparison.ABOVE: found > number,
            Comparison.BELOW: found < number,
            Comparison.AT_MOST: found <= number,
            Comparison.IS: found == number,
            Comparison.IS_NOT: found != number,
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A pattern rule whose events are counted.

    Args:
        rule: Finds the events.
        keys: The columns of its table by which they are grouped, in the order of the threshold rule's keys.
        value: The column whose values are counted.
    """

    rule: AlertRule
    keys: tuple[str, ...]
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule:
    """Several events of one key within a time that a person wants to know of.

    Args:
        id: Its name for ever.
        title: What it detects, in a line.
        counted: What is counted.
        parts: The rules that find the events, in their order.
        keys: The names by which events are grouped; without any, all events are one group.
        within: The length of a window.
        comparison: How the count compares.
        number: With what.
        severity: How bad it is.
        fires_on: Lists of events on which it must fire.
        quiet_on: Lists of events on which it must not.
        owner: Who answers; the owner of the first part when empty.
        runbook: What to do then.
        about: More than the title.
        tags: Such as ``attack.t1110``.
        origin: Where it was declared.
        document: What it was read from.

    Raises:
        DefinitionError: It has no part, or an example is of no table of its parts.
    """

    id: str
    title: str
    counted: Counted
    parts: tuple[Part, ...]
    keys: tuple[str, ...]
    within: timedelta
    comparison: Comparison = Comparison.AT_LEAST
    number: int
    severity: Severity = Severity.MEDIUM
    fires_on: tuple[tuple[Event, ...], ...] = field(default=(), hash=False)
    quiet_on: tuple[tuple[Event, ...], ...] = field(default=(), hash=False)
    owner: str = ""
    runbook: str = ""
    about: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    document: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be asked, and bring examples into the form of rows."""
        if not self.parts:
            raise DefinitionError(
                f"the rule {self.id} counts the events of no rule", hint="name rules.", rule=self.id
            )
        object.__setattr__(self, "owner", self.owner or self.parts[0].rule.owner)
        for name in ("fires_on", "quiet_on"):
            rows = tuple(tuple(map(self._row, events)) for events in getattr(self, name))
            object.__setattr__(self, name, rows)

    @property
    def sources(self) -> tuple[AlertSource, ...]:
        """Return the tables whose events it counts."""
        return tuple(dict.fromkeys(part.rule.source for part in self.parts))

    @property
    def version(self) -> str:
        """Return the hash of its meaning, which has that of its parts."""
        parts = [(part.rule.version, part.keys, part.value) for part in self.parts]
        counts = (self.counted, self.keys, self.within, self.comparison, self.number)
        return hashlib.sha256(repr((counts, parts)).encode()).hexdigest()[:12]

    @property
    def is_tested(self) -> bool:
        """Return whether it has examples of both kinds."""
        return bool(self.fires_on and self.quiet_on)

    def _row(self, event: Event) -> Event:
        """Return an event of an example as a row of the table that has its fields."""
        for source in self.sources:
            try:
                return source.row(event)
            except DefinitionError:
                if source is self.sources[-1]:
                    raise
        return {}

    def __str__(self) -> str:
        """Return its name."""
        return self.id


# Which tables a threshold rule counts, and the name of the feed that counts them; without Spark, as Dagster asks for both.


def sources_of(rule: ThresholdRule) -> tuple[AlertSource, ...]:
    """Return the tables whose events a rule counts, in the order of their names."""
    return tuple(sorted(rule.sources, key=lambda source: source.table.id))


def feed_name(sources: Sequence[AlertSource]) -> str:
    """Return the name of the feed of all rules that count the same tables.

    It has the names of its tables, so that its checkpoint has the same sources whatever its rules are.
    """
    return f"thresholds_{'_and_'.join(source.table.name for source in sources)}"
