"""A rule that raises alerts, as a value: what it looks for, how bad that is, who answers, and examples that prove it.

Not to be confused with a rule of rows (``strandline_quality.rules.Rule``), which decides whether a row is believed. An alert rule
looks at rows that are.

This is the *pattern* rule, which looks at one event. A rule that counts events or waits for a second one is a kind of
its own with the same frame (``severity``, ``runbook``, ``owner``, ``version``); whatever lists, mutes or delivers
rules needs the frame only.
"""

import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import catalog

from strandline.alerting.condition import Condition, Missing, Not, columns, simplified
from strandline.alerting.tables import bronze, gold, silver
from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc
from strandline.core.model import SCORE, UNUSUAL, VERSION, Model, Term, steps
from strandline.core.table import Judged, Table
from strandline.project import package

# What alert rules look at, and where a project declares it: a table, which of its columns a rule may name, and the names that Sigma's taxonomy gives them.
#
# A rule of Sigma names a log source (``category: process_creation``) and fields (``DestinationIp``). Each source says which log
# sources it is and which of its columns a field of another name is. Fields whose names are columns need no entry. Any source can be
# named by its table, ``service: user_actions``.

KINDS = (StringType, LongType, IntegerType, DecimalType, TimestampType)
"""The types of columns that a rule can ask about, and that an alert shows as the table has them."""
BITS: dict[type[DataType], int] = {IntegerType: 31, LongType: 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSource:
    """A table whose rows alert rules look at.

    The key and the time of an event are those of the table, and by them an alert has the same id wherever it is raised.

    Args:
        table: The judged table, whose bronze table reads topics: rules look at each event as it comes.
        fields: The columns that a rule may name, each a text, a whole number, a decimal or a time; the key and the time
            of the table are among them.
        entity: The column with whom or what an event is about, by which alerts are counted; it is not masked.
        categories: The categories of Sigma's log sources that the table holds; a rule may name the table as its
            ``service`` as well.
        names: Fields of rules that have another name than their column, and the column of each.

    Raises:
        DefinitionError: A column is not there or of another type, the key is not among them, or the entity is masked.
    """

    table: Judged
    fields: StructType = field(hash=False, compare=False)
    entity: str
    categories: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    name: str = field(default="", init=False)
    """The name of its feed where that is not the table's: a model's."""
    made: tuple[tuple[str, ...], ...] = field(default=(), init=False)
    """SQL for columns that are computed of each row, in steps; each but the last adds, and the last selects."""

    def __post_init__(self) -> None:
        """Refuse what no rule could look at."""
        for message, hint in _mistakes(self):
            raise DefinitionError(message, hint=hint)

    @property
    def feed(self) -> str:
        """Return the name of its feed."""
        return self.name or self.table.name

    def computed(
        self, name: str, fields: StructType, made: tuple[tuple[str, ...], ...]
    ) -> "AlertSource":
        """Return the same table with columns that are computed of each row, as a feed of its own."""
        found = replace(self)
        for each, value in {"name": name, "fields": fields, "made": made}.items():
            object.__setattr__(found, each, value)
        return found

    def completed(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table with the columns that are computed of them."""
        for step in self.made[:-1]:
            rows = rows.selectExpr("*", *step)
        return rows.selectExpr(*self.made[-1]) if self.made else rows

    def is_text(self, column: str) -> bool:
        """Return whether a column holds text."""
        return isinstance(self.fields[column].dataType, StringType)

    def is_number(self, column: str) -> bool:
        """Return whether a column holds whole numbers of 64 bits."""
        return isinstance(self.fields[column].dataType, LongType)

    def holds_numbers(self, column: str) -> bool:
        """Return whether a column holds numbers of any kind."""
        return isinstance(self.fields[column].dataType, LongType | IntegerType | DecimalType)

    def is_time(self, column: str) -> bool:
        """Return whether a column holds times."""
        return isinstance(self.fields[column].dataType, TimestampType)

    def row(self, event: Mapping[str, object]) -> dict[str, object]:
        """Return an event as a row of the table; columns that it does not name are NULL.

        Raises:
            DefinitionError: It has a field that is no column, or a value of another type.
        """
        found: dict[str, object] = dict.fromkeys(self.fields.fieldNames())
        for name, value in event.items():
            column = self.names.get(name, name)
            if column not in found:
                raise DefinitionError(
                    f"{self.table.id} has no column {name}",
                    hint=f"its columns are {', '.join(self.fields.fieldNames())}.",
                    table=self.table.id,
                )
            found[column] = self._value(column, value)
        return found

    def _value(self, column: str, value: object) -> object:
        kind = self.fields[column].dataType
        match value:
            case None:
                return None
            case datetime() if self.is_time(column):
                return in_utc(value)
            case str() if self.is_time(column):
                try:
                    return in_utc(datetime.fromisoformat(value))
                except ValueError:
                    pass
            case bool():
                pass
            case int() | float() | Decimal() if self.holds_numbers(column):
                found = _as_number(kind, value)
                if found is not None:
                    return found
            case str() if self.is_text(column):
                return value
        raise DefinitionError(
            f"the value of {column} in an event of {self.table.id} is no {kind.simpleString()}: {str(value)[:80]!r}",
            hint="quote texts, write numbers without quotes and times as 2026-11-20T08:15:30Z.",
            column=column,
        )


def _as_number(kind: DataType, value: float | Decimal) -> int | Decimal | None:
    """Return a number as a column of a type has it; None where the type has no such number."""
    if isinstance(kind, DecimalType):
        try:
            found = Decimal(str(value))
            exact = found.quantize(Decimal(1).scaleb(-kind.scale))
        except InvalidOperation:
            return None
        whole = kind.precision - kind.scale
        return exact if exact == found and exact.adjusted() < whole else None
    most = 1 << BITS[type(kind)]
    return value if isinstance(value, int) and -most <= value < most else None


def _mistakes(source: AlertSource) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a source by itself, and what to do."""
    given: dict[str, object] = {
        each.name: getattr(source, each.name) for each in fields(source) if each.init
    }
    table, columns, categories = (given[name] for name in ("table", "fields", "categories"))
    if not isinstance(table, Judged):
        yield (
            f"a source reads {getattr(table, 'id', table)!s}, which is no judged table",
            "rules look at events one by one, so name a silver table of kind Judged.",
        )
    elif not isinstance(columns, StructType):
        yield (
            f"the fields of the source {table.id} are {columns!r}",
            "name its columns with their types, such as the StructType that its module parses with.",
        )
    elif not isinstance(categories, tuple):
        yield (
            f"the categories of the source {table.id} are {categories!r}, which is no tuple",
            "write categories=(…,): the comma makes the tuple.",
        )
    else:
        yield from _unknown(source)
        yield from _unfit(source)


def _unknown(source: AlertSource) -> Iterator[tuple[str, str]]:
    """Yield the columns that a source names and does not have."""
    table, known = source.table, source.fields.fieldNames()
    listed = f"its columns are {', '.join(known)}."
    if table.keeps_copies:
        yield (
            f"the events of the source {table.id} have no id (key=PLACE), and an alert has its id by that of its event",
            "let a rule look at a table whose events have an id.",
        )
        return
    if table.rows:
        yield (
            f"the source {table.id} makes a row of each item of {table.rows}, and an alert has its id by the key of its record",
            "let a rule look at a table of the records themselves.",
        )
        return
    if table.static:
        yield (
            f"the source {table.id} joins {' and '.join(map(str, table.static))}, whose versions are in a lake, and rules have none",
            "let a gold table join it.",
        )
    for column in (*table.key, table.event_at):
        if column not in known:
            yield (
                f"the source {table.id} lacks {column}, which is of the table's key or its time",
                f"add it to `fields`: an alert has its id by it; {listed}",
            )
    if source.entity not in known:
        yield f"the entity {source.entity!r} is no column of the source {table.id}", listed
    for name, column in source.names.items():
        if column not in known:
            yield f"{name} is to be the column {column}, which the source {table.id} lacks", listed


def _unfit(source: AlertSource) -> Iterator[tuple[str, str]]:
    """Yield the columns of a source that cannot be what they are to be."""
    table = source.table
    for each in source.fields:
        kind = each.dataType.simpleString()
        if not isinstance(each.dataType, KINDS):
            yield (
                f"the source {table.id} has {each.name} of type {kind}, which no rule can ask about",
                "leave it out, or let the table have it as a text, a whole number, a decimal or a time.",
            )
    if source.entity in table.secret:
        yield (
            f"the entity {source.entity!r} of the source {table.id} is masked, and pages about alerts show it",
            "name a column that is not sensitive, such as the key.",
        )


# The sources that a project declares: ``SOURCES`` in the module ``alerts`` of its package, with its rules in the folder ``rules`` beside.
#
# The catalog asks for the tables of alerts where there is such a module, and refuses a mistake in it before Spark starts.


PART = "alerts"
TABLES = (bronze, silver, gold)
EXAMPLE = "SOURCES = (AlertSource(table=orders.TABLE, fields=orders.FIELDS, entity='order_id'),)"


def sources() -> tuple[AlertSource, ...]:
    """Return the sources of the project; none where it declares no alerts.

    Raises:
        DefinitionError: The project has a mistake.
    """
    if not catalog.declares(PART):
        return ()
    catalog.tables()  # refuses what is wrong
    found: tuple[AlertSource, ...] = tuple(importlib.import_module(_module()).SOURCES)
    return found


def find(table: str) -> AlertSource | None:
    """Return the source of a table's name, with or without its layer; None if rules look at no such table."""
    return next((each for each in sources() if table in {each.table.id, each.table.name}), None)


def rules_folder() -> Path:
    """Return the folder with the rules of the project."""
    return Path(str(importlib.import_module(package()).__file__)).parent / "rules"


def added(declared: ModuleType, found: Mapping[str, Table]) -> tuple[ModuleType, ...]:
    """Return the modules of the tables of alerts.

    Args:
        declared: The project's module.
        found: The tables of the project.

    Raises:
        DefinitionError: The module has a mistake.
    """
    _refuse(declared, found)
    return TABLES


def _module() -> str:
    return f"{package()}.{PART}"


def _refuse(module: ModuleType, found: Mapping[str, Table]) -> None:
    given = getattr(module, "SOURCES", None)
    if not isinstance(given, tuple | list) or not all(isinstance(e, AlertSource) for e in given):
        raise DefinitionError(
            f"{module.__name__} does not declare what alert rules look at",
            hint=f"end the module with {EXAMPLE}.",
            file=str(module.__file__),
        )
    if not given:
        raise DefinitionError(
            f"{module.__name__} declares no source: SOURCES is empty",
            hint="name the tables that rules look at; a project without alerts has no such module.",
        )
    known: dict[str, AlertSource] = {}
    for source in given:
        for message, hint in _mistakes_among(source, found, known):
            raise DefinitionError(
                f"{module.__name__}: {message}", hint=hint, table=str(source.feed)
            )
        known[source.feed] = source


def _mistakes_among(
    source: AlertSource, found: Mapping[str, Table], known: Mapping[str, AlertSource]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a source among others, and what to do."""
    table = source.table
    if found.get(table.id) is not table:
        tables = ", ".join(name for name, each in found.items() if isinstance(each, Judged))
        yield (
            f"a source reads {table.id}, which no module declares",
            f"name the TABLE of a module in {package()}/silver; those are {tables}.",
        )
    if source.feed in known:
        yield (
            f"two sources have the name {source.feed}",
            "a table is declared once; put categories and names of both into one source.",
        )
    for category in source.categories:
        if other := next((e for e in known.values() if category in e.categories), None):
            yield (
                f"the category {category} is that of {other.table.id} and of {table.id}",
                "leave it out at one of them; a rule names the other table as its `service`.",
            )


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
