"""What alert rules look at, and where a project declares it: a table, which of its columns a rule may name, and the names that Sigma's taxonomy gives them.

A rule of Sigma names a log source (``category: process_creation``) and fields (``DestinationIp``). Each source says which log
sources it is and which of its columns a field of another name is. Fields whose names are columns need no entry. Any source can be
named by its table, ``service: user_actions``.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import ModuleType

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

from strandline.alerting.tables import bronze, gold, silver
from strandline.core.errors import DefinitionError
from strandline.core.lateness import in_utc
from strandline.core.table import Judged, Table
from strandline.project import package

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
