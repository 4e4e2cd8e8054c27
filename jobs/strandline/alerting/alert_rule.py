"""A rule that raises alerts, as a value: what it looks for, how bad that is, who answers, and examples that prove it.

Not to be confused with a rule of rows (``strandline_quality.rules.Rule``), which decides whether a row is believed. An alert rule
looks at rows that are.

This is the *pattern* rule, which looks at one event. A rule that counts events or waits for a second one is a kind of
its own with the same frame (``severity``, ``runbook``, ``owner``, ``version``); whatever lists, mutes or delivers
rules needs the frame only.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from pyspark.sql.types import DecimalType, StringType, StructType

from strandline.alerting.condition import Condition, Missing, Not, columns, simplified
from strandline.alerting.source import AlertSource, sources
from strandline.core.errors import DefinitionError
from strandline.core.model import SCORE, UNUSUAL, VERSION, Model, Term, steps
from strandline.project import package

Event = Mapping[str, object]


class Severity(StrEnum):
    """How bad it is when a rule fires, in Sigma's levels."""

    INFORMATIONAL = "informational"
    """No one is called; it enriches the event."""
    LOW = "low"
    """Notable in numbers."""
    MEDIUM = "medium"
    """Reviewed by hand, now and then."""
    HIGH = "high"
    """Reviewed soon."""
    CRITICAL = "critical"
    """Reviewed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A pattern in one event that a person wants to know of.

    Args:
        id: Its name for ever; alerts and their history carry it.
        title: What it detects, in a line.
        source: The table whose rows it looks at.
        when: The condition; it is kept in its simplified form.
        severity: How bad it is.
        fires_on: Events on which it must fire; columns that are not named are NULL.
        quiet_on: Events on which it must not.
        owner: Who answers; the table's owner when empty.
        runbook: What to do then: a page, or an address.
        about: More than the title.
        tags: Such as ``attack.t1059.001``.
        origin: Where it was declared.
        document: What it was read from.

    Raises:
        DefinitionError: The condition names no column of the table, or an example is no row of it.
    """

    id: str
    title: str
    source: AlertSource
    when: Condition
    severity: Severity = Severity.MEDIUM
    fires_on: tuple[Event, ...] = field(default=(), hash=False)
    quiet_on: tuple[Event, ...] = field(default=(), hash=False)
    owner: str = ""
    runbook: str = ""
    about: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    document: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Bring condition and examples into the form in which they are used, and refuse those that have none."""
        object.__setattr__(self, "when", simplified(self.when))
        object.__setattr__(self, "owner", self.owner or self.source.table.owner)
        unknown = sorted(columns(self.when) - set(self.source.fields.fieldNames()))
        if unknown:
            raise DefinitionError(
                f"the rule {self.id} looks at {', '.join(unknown)}, which {self.source.table.id} does not have",
                hint=f"its columns are {', '.join(self.source.fields.fieldNames())}.",
                rule=self.id,
            )
        for name in ("fires_on", "quiet_on"):
            rows = tuple(self.source.row(event) for event in getattr(self, name))
            object.__setattr__(self, name, rows)

    @property
    def sources(self) -> tuple[AlertSource, ...]:
        """Return the tables that it looks at, as a threshold rule does."""
        return (self.source,)

    @property
    def version(self) -> str:
        """Return the hash of its meaning: the table and the condition, and not the words about them."""
        meaning = f"{self.source.table.id}\n{self.when!r}"
        return hashlib.sha256(meaning.encode()).hexdigest()[:12]

    @property
    def is_tested(self) -> bool:
        """Return whether it has examples of both kinds."""
        return bool(self.fires_on and self.quiet_on)

    def __str__(self) -> str:
        """Return its name."""
        return self.id


# A rule that counts events, or waits for several kinds of them, by key and within a time: Sigma's correlation, as a value.
#
# It has the frame of a pattern rule and, in the place of a condition, pattern rules that find its
# events. ``jobs/strandline/alerting/windows.py`` defines exactly when it fires.


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


Rule: TypeAlias = AlertRule | ThresholdRule
"""A rule of either kind."""


# Which tables a threshold rule counts, and the name of the feed that counts them; without Spark, as Dagster asks for both.


def sources_of(rule: ThresholdRule) -> tuple[AlertSource, ...]:
    """Return the tables whose events a rule counts, in the order of their names."""
    return tuple(sorted(rule.sources, key=lambda source: source.table.id))


def feed_name(sources: Sequence[AlertSource]) -> str:
    """Return the name of the feed of all rules that count the same tables.

    It has the names of its tables, so that its checkpoint has the same sources whatever its rules are.
    """
    return f"thresholds_{'_and_'.join(source.table.name for source in sources)}"


# A model as an alert rule: it fires on an event whose score reaches the threshold of the version that holds at its time.
#
# The score is computed by the SQL that scores the model's table (``steps`` in jobs/strandline/core/model.py), over the believed
# event itself, so it runs in every mode of a feed, real time included, and a score in an alert is the score in the table.
#
# The rule looks at a source of its own, the event's table with the score beside its columns, so it is a feed of its own:
# a promotion changes the plan of this feed and no other. Its version does not name the versions that score. An event has
# one alert of the rule, whichever plan has judged it, and the alert's event says which version did.


def model_source(model: Model) -> AlertSource | None:
    """Return the events that a model can score as they come; None where it does not say that it can."""
    if not model.alerts or len(model.of.upstream) != 1:
        return None
    return next((each for each in sources() if each.table == model.of.upstream[0]), None)


def model_rule(model: Model, terms: Sequence[Term]) -> AlertRule | None:
    """Return the rule of a model; None where it raises no alerts, or nothing of it was ever promoted.

    Args:
        model: The model.
        terms: Which version of it holds from when on.
    """
    source = model_source(model)
    if source is None or not terms:
        return None
    fields = StructType([*source.fields]).add(VERSION, StringType()).add(SCORE, DecimalType(18, 6))
    names = [f"`{name}`" for name in fields.fieldNames() if name != SCORE]
    places = [f"`{name}`" for name in ("_topic", "_partition", "_offset")]
    # Without a score where it is usual, so that the condition is the cheapest of all.
    unusual = f"if({UNUSUAL}, {SCORE}, NULL) AS {SCORE}"
    made = [*map(tuple, steps(terms, model.of.event_at)), (*names, *places, unusual)]
    return AlertRule(
        id=f"model-{model.name}",
        title=(model.about or model.name).partition("\n")[0].rstrip("."),
        source=source.computed(model.name, fields, tuple(made)),
        when=Not(Missing(SCORE)),
        severity=Severity.MEDIUM,
        owner=model.owner,
        origin=f"{package().replace('.', '/')}/models/{model.name}.py",
    )
