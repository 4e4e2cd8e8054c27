"""What a condition says of an event: as Spark SQL, which raises alerts, and in Python, which explains them.

The SQL has native functions only, because real-time mode runs no Python.

Text and not a ``Column``, because each call of a ``Column`` crosses into the JVM: a hundred rules took six seconds to
build [measured], and a rule that is switched on must not wait for a thousand others.

Every clause about a missing value is false, by ``coalesce`` at the clause, so that ``not`` above it is true and no alert
is lost to NULL.

What several clauses need of a column is made once per event, in a projection below: its lower case, its digits as an
address. ``Prepared`` says which; Spark does not merge the projections again, because it does not repeat what is dear.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial

from strandline.alerting import condition
from strandline.alerting.alert_rule import AlertRule, AlertSource
from strandline.alerting.condition import (
    AllOf,
    AnyOf,
    Clause,
    Condition,
    Glob,
    InNetwork,
    InTime,
    Matches,
    Missing,
    Not,
    Number,
    Order,
    Same,
    Text,
    TimePart,
    Wild,
    as_regex,
    clauses,
    is_in,
    steps,
)
from strandline_quality.linear import linear

# Whether a condition holds for one event, in Python: to say in milliseconds, without Spark, which clause failed.
#
# Alerts are never raised from here: Spark raises them. tests/rules/test_compile.py compares both
# on every case of the specification, so that an explanation is about the rule that runs.


Row = Mapping[str, object]

DIGITS = 38
SCALE = 9
"""Digits of a number in a text, and those behind its point, as Spark is asked to read it."""


def holds(condition: Condition, row: Row) -> bool:
    """Return whether a condition holds for a row."""
    match condition:
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case Not(part):
            return not holds(part, row)
        case _:
            return _evaluate_clause(condition, row)


def _evaluate_clause(clause: Clause, row: Row) -> bool:  # noqa: PLR0911  # a kind of clause each
    value = row.get(clause.column)
    if isinstance(clause, Missing):
        return value is None
    if value is None:
        return False
    match clause:
        case Text(_, glob):
            text = str(value) if glob.cased else str(value).lower()
            return re.search(as_regex(glob.folded), text) is not None
        case Matches(_, pattern, flags):
            return linear(pattern, flags).found(str(value))
        case Number(_, order, number):
            found_number = _number(value)
            return found_number is not None and _compares(found_number, order, number)
        case InNetwork(_, network):
            return condition.contains(str(value), network)
        case Same():
            other = row.get(clause.other)
            return other is not None and _evaluate_is_like(
                clause, str(value).lower(), str(other).lower()
            )
        case InTime(_, part, number):
            return isinstance(value, datetime) and _part(value, part) == number


def _number(value: object) -> Decimal | None:
    """Return the number that a value is, rounded as Spark rounds it."""
    text = str(value).strip()
    if "_" in text:  # Python reads 1_000, Spark does not; digits of any script are digits to both
        return None
    try:
        found = Decimal(text)
        if not found.is_finite() or found.adjusted() >= DIGITS - SCALE:
            return None
        return round(found, SCALE)
    except InvalidOperation:
        return None


def _compares(value: Decimal, order: Order, number: Decimal) -> bool:
    match order:
        case Order.IS:
            return value == number
        case Order.BELOW:
            return value < number
        case Order.AT_MOST:
            return value <= number
        case Order.ABOVE:
            return value > number
        case Order.AT_LEAST:
            return value >= number


def _evaluate_is_like(clause: Same, value: str, other: str) -> bool:
    match (clause.starts, clause.ends):
        case (True, True):
            return other in value
        case (True, False):
            return value.startswith(other)
        case (False, True):
            return value.endswith(other)
        case _:
            return value == other


def _part(value: datetime, part: TimePart) -> int:
    return value.isocalendar().week if part is TimePart.WEEK else int(getattr(value, part.value))


# Why a rule fires on an event or stays quiet: the clauses that fail, and how near it came.
#
# Clauses are shown in the rule's words, without the event's values: an explanation may be pasted into a ticket, and the
# values of some columns may not.


SHOWN = 3
"""Alternatives that are listed; a rule may have hundreds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rule says about an event.

    Args:
        rule: The rule.
        fires: Whether it fires.
        failing: What would have to be otherwise for it to fire; of alternatives, those of the nearest one.
        held: How many parts of the condition hold.
        asked: How many parts it has.
    """

    rule: AlertRule
    fires: bool
    failing: tuple[str, ...]
    held: int
    asked: int

    @property
    def is_near(self) -> bool:
        """Return whether it is a near miss: something of it holds."""
        return not self.fires and self.held > 0


def explain(rule: AlertRule, row: Row) -> Explanation:
    """Return what a rule says about a row of its table."""
    condition = _nearest(rule.when, row)
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    held = sum(holds(part, row) for part in parts)
    failing = tuple(reason for part in parts for reason in _failing(part, row))
    return Explanation(rule, holds(rule.when, row), failing, held, len(parts))


def _nearest(condition: Condition, row: Row) -> Condition:
    """Return the alternative of which the fewest parts fail."""
    if isinstance(condition, AnyOf) and any(isinstance(part, AllOf) for part in condition.parts):
        nearest = min(condition.parts, key=lambda part: len(_failing(part, row)))
        return _nearest(nearest, row)
    return condition


def _failing(condition: Condition, row: Row) -> list[str]:
    """Return what fails in a condition; nothing where it holds."""
    if holds(condition, row):
        return []
    match condition:
        case AllOf(parts):
            return [reason for part in parts for reason in _failing(part, row)]
        case AnyOf(parts):
            shown = "; ".join(map(str, parts[:SHOWN]))
            more = len(parts) - SHOWN
            return [f"none of: {shown}" + (f"; and {more} more" if more > 0 else "")]
        case Not(part):
            return [f"an exclusion holds: {part}"]
        case _:
            return [_explain_clause(condition, row)]


def _explain_clause(clause: Clause, row: Row) -> str:
    is_missing = not isinstance(clause, Missing) and row.get(clause.column) is None
    return f"not: {clause}" + (f" ({clause.column} is missing)" if is_missing else "")


LOWER = "_lower_"
ADDRESS = "_address_"
LONGEST_WHOLE = 1 << 63
PARTS = {TimePart.DAY: "dayofmonth", TimePart.WEEK: "weekofyear"}
DECIMAL = f"DECIMAL({DIGITS}, {SCALE})"


def quoted(text: str) -> str:
    """Return a text as a literal of Spark SQL.

    A dollar is written by its number: Spark replaces ``${…}`` in SQL by settings and by the environment.
    """
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + plain.replace("$", "\\u0024").replace("\x00", "\\u0000") + "'"


def named(column: str) -> str:
    """Return a column as SQL."""
    return f"`{column}`"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The columns that clauses need, and how each is made."""

    lower: frozenset[str]
    addresses: frozenset[str]

    def steps(self) -> Iterator[list[str]]:
        """Yield SQL for columns under their names, in steps, each of which may read the columns of those before."""
        lowered = (
            f"lower(CAST({named(name)} AS STRING)) AS {named(LOWER + name)}"
            for name in sorted(self.lower)
        )
        yield [*lowered]
        each = [steps(named(name), partial(_address, name)) for name in sorted(self.addresses)]
        for together in zip(*each, strict=True):
            yield [f"{sql} AS {name}" for columns in together for name, sql in columns.items()]


def _address(name: str, part: str) -> str:
    """Return the column for a part of an address, or for its digits."""
    return named(f"{ADDRESS}{name} {part}".rstrip())


def prepared(conditions: Iterable[Condition]) -> Prepared:
    """Return what the clauses of conditions need of their columns."""
    lower: set[str] = set()
    networks: set[str] = set()
    for each in conditions:
        for clause in clauses(each):
            match clause:
                case Text(column, glob) if not glob.cased:
                    lower.add(column)
                case Matches(column, pattern, flags):
                    read = linear(pattern, flags)
                    if read.ignores_case and read.literal:
                        lower.add(column)
                case Same(column, other):
                    lower |= {column, other}
                case InNetwork(column):
                    networks.add(column)
    return Prepared(frozenset(lower), frozenset(networks))


def compiled(
    condition: Condition, source: AlertSource, known: Mapping[Clause, str] | None = None
) -> str:
    """Return SQL for whether a condition holds for a row, never NULL.

    Args:
        condition: What is asked.
        source: The table; the row has its columns and the prepared ones.
        known: Clauses that the row has an answer to already, and SQL for it.
    """
    match condition:
        case AllOf(parts):
            return "(" + " AND ".join(compiled(part, source, known) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(compiled(part, source, known) for part in parts) + ")"
        case Not(part):
            return f"(NOT {compiled(part, source, known)})"
        case Missing(column):
            return f"({named(column)} IS NULL)"
        case _:
            found = (known or {}).get(condition) or _clause(condition, source)
            return f"coalesce({found}, false)"


def _clause(clause: Clause, source: AlertSource) -> str:  # noqa: PLR0911  # a kind of clause each
    column = named(clause.column)
    match clause:
        case Text(name, glob):
            text = f"CAST({column} AS STRING)" if glob.cased else named(LOWER + name)
            return _glob(text, glob.folded)
        case Matches():
            return _matches(clause)
        case Number(name, order, number):
            is_whole = number == number.to_integral_value() and abs(number) < LONGEST_WHOLE
            if source.is_number(name) and is_whole:
                return f"{column} {order} {int(number)}L"
            return f"try_cast({column} AS {DECIMAL}) {order} CAST({quoted(format(number, 'f'))} AS {DECIMAL})"
        case InNetwork(name, network):
            return is_in(named(ADDRESS + name), network)
        case Same(name, other):
            return _is_like(clause, named(LOWER + name), named(LOWER + other))
        case InTime(_, part, number):
            return f"{PARTS.get(part, part)}({column}) = {number}"
        case Missing():
            return f"{column} IS NULL"


def _matches(clause: Matches) -> str:
    """Return the search, behind a look for a text without which it finds nothing."""
    text = f"CAST({named(clause.column)} AS STRING)"
    read = linear(clause.pattern, clause.flags)
    search = f"linear_match({text}, {quoted(read.text)})"
    if read.literal is None:
        return search
    where = named(LOWER + clause.column) if read.ignores_case else text
    return f"(contains({where}, {quoted(read.literal)}) AND {search})"


def _glob(text: str, glob: Glob) -> str:  # a shape of text each
    plain = quoted("".join(part for part in glob.parts if not isinstance(part, Wild)))
    match [part if isinstance(part, Wild) else "" for part in glob.parts]:
        case [] | [""]:
            return f"{text} = {plain}"
        case [Wild.MANY]:
            return f"{text} IS NOT NULL"
        case [Wild.MANY, "", Wild.MANY]:
            return f"contains({text}, {plain})"
        case ["", Wild.MANY]:
            return f"startswith({text}, {plain})"
        case [Wild.MANY, ""]:
            return f"endswith({text}, {plain})"
        case _:
            return _searched(text, glob)


def _searched(text: str, glob: Glob) -> str:
    """Return the search for a glob, behind a look for its longest part."""
    plain = [part for part in glob.parts if not isinstance(part, Wild)]
    search = f"{text} RLIKE {quoted(as_regex(glob))}"
    longest = max(plain, key=len, default="")
    return f"(contains({text}, {quoted(longest)}) AND {search})" if longest else search


def _is_like(clause: Same, text: str, other: str) -> str:
    match (clause.starts, clause.ends):
        case (True, True):
            return f"contains({text}, {other})"
        case (True, False):
            return f"startswith({text}, {other})"
        case (False, True):
            return f"endswith({text}, {other})"
        case _:
            return f"{text} = {other}"
