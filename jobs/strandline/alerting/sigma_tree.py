"""Turn what pySigma parsed into a condition over a table's columns.

pySigma reads the modifiers and applies those that change a value (``base64offset``, ``windash``, ``contains``); what is
left are typed values, and each type has one clause here. What cannot be said exactly about a column is refused with its
reason: a number compared with a time, a placeholder that nothing fills.

Keywords are searched in the whole message. A row has no message but its columns, so a keyword is searched in each
column of text or numbers.
"""

from collections.abc import Callable
from decimal import Decimal

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.rule import SigmaRule
from sigma.types import (
    CompareOperators,
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaFieldReference,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaString,
    SigmaTimestampPart,
    SigmaType,
    SpecialChars,
)

from strandline.alerting.alert_rule import AlertSource
from strandline.alerting.compile import DIGITS, SCALE
from strandline.alerting.condition import (
    AllOf,
    AnyOf,
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
    clauses,
)

MOST_CLAUSES = 2_000
LONGEST_CONDITION = 4_000
DEEPEST_CONDITION = 12

WILDS = {SpecialChars.WILDCARD_MULTI: Wild.MANY, SpecialChars.WILDCARD_SINGLE: Wild.ONE}
ORDERS = {
    CompareOperators.LT: Order.BELOW,
    CompareOperators.LTE: Order.AT_MOST,
    CompareOperators.GT: Order.ABOVE,
    CompareOperators.GTE: Order.AT_LEAST,
}


class UnsupportedError(ValueError):
    """A rule asks for what cannot be said about the table; the text is the reason."""


def condition(rule: SigmaRule, source: AlertSource) -> Condition:
    """Return the condition of a rule; several conditions are alternatives.

    Raises:
        UnsupportedError: Something in it cannot be said about the source.
        SigmaError: pySigma refuses it.
    """
    for text in rule.detection.condition:
        _refuse_long(text)
    trees = [each.parsed for each in rule.detection.parsed_condition]
    found = AnyOf(tuple(_Tree(source).condition(tree) for tree in trees))
    if sum(1 for _ in clauses(found)) > MOST_CLAUSES:
        raise UnsupportedError(f"it expands to more than {MOST_CLAUSES:,} clauses")
    return found


def _refuse_long(text: object) -> None:
    """Refuse a condition on which pySigma's parser, which calls itself, would spend minutes or its stack."""
    if not isinstance(text, str):
        raise UnsupportedError(f"its condition is no text: {text!r}")
    depth = most = 0
    for mark in text:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        most = max(most, depth)
    if len(text) > LONGEST_CONDITION:
        raise UnsupportedError(f"its condition has more than {LONGEST_CONDITION:,} characters")
    if most > DEEPEST_CONDITION:
        raise UnsupportedError(f"its condition is nested more than {DEEPEST_CONDITION} deep")


class _Tree:
    """The clauses of one rule about one table."""

    def __init__(self, source: AlertSource) -> None:
        self.source = source

    def condition(self, tree: object) -> Condition:
        """Return what a part of the parsed condition asks."""
        match tree:
            case ConditionAND():
                return AllOf(tuple(self.condition(part) for part in tree.args))
            case ConditionOR():
                return AnyOf(tuple(self.condition(part) for part in tree.args))
            case ConditionNOT():
                return Not(self.condition(tree.args[0]))
            case ConditionFieldEqualsValueExpression():
                return self._clause(self._column(tree.field), tree.value)
            case ConditionValueExpression():
                return self._keyword(tree.value)
            case _:
                raise UnsupportedError("its condition is empty")

    def _column(self, name: str) -> str:
        if name not in self.source.fields.fieldNames():
            raise UnsupportedError(
                f"unknown field {name}: {self.source.table.id} has no such column"
            )
        return name

    def _keyword(self, value: SigmaType) -> Condition:
        """Return the search for a value in every column."""
        names = [n for n in self.source.fields.fieldNames() if not self.source.is_time(n)]
        match value:
            case SigmaExpansion():
                return AnyOf(tuple(self._keyword(each) for each in value.values))
            case SigmaString():
                glob = _glob(value)
                around = Glob.around(glob.parts, cased=glob.cased)
                return AnyOf(tuple(Text(name, around) for name in names))
            case SigmaNumber() if not isinstance(value, SigmaTimestampPart):
                around = Glob.around((str(value),))
                return AnyOf(tuple(Text(name, around) for name in names))
            case SigmaRegularExpression():
                return AnyOf(tuple(_matches(name, value) for name in names))
            case _:
                raise UnsupportedError(f"a keyword is a text, not a {_kind(value)}")

    def _clause(self, column: str, value: SigmaType) -> Condition:
        match value:
            case SigmaExpansion():
                return AnyOf(tuple(self._clause(column, each) for each in value.values))
            case SigmaNull():
                return Missing(column)
            case SigmaExists():
                return Not(Missing(column)) if value.exists else Missing(column)
            case SigmaTimestampPart():
                return self._time(column, value)
            case SigmaFieldReference():
                return self._same(column, value)
            case _ if self.source.is_time(column):
                raise UnsupportedError(
                    f"{column} is a time; ask for its hour, day and so on, not for a {_kind(value)}"
                )
        return _text_clause(column, value, is_number=self.source.holds_numbers(column))

    def _time(self, column: str, value: SigmaTimestampPart) -> Condition:
        if not self.source.is_time(column):
            raise UnsupportedError(
                f"{column} is no time, so it has no {value.timestamp_part.name.lower()}"
            )
        return InTime(column, TimePart(value.timestamp_part.name.lower()), int(value.number))

    def _same(self, column: str, value: SigmaFieldReference) -> Condition:
        other = self._column(value.field)
        if self.source.is_time(column) or self.source.is_time(other):
            raise UnsupportedError(
                f"{column} and {other} cannot be compared as texts: one is a time"
            )
        return Same(column, other, starts=value.starts_with, ends=value.ends_with)


def _text_clause(  # noqa: PLR0911  # a type of value each
    column: str, value: SigmaType, *, is_number: bool
) -> Condition:
    """Return the clause of a value about a column of text or numbers."""
    match value:
        case SigmaString():
            return Text(column, _glob(value))
        case SigmaNumber():
            if is_number:
                return Number(column, Order.IS, _decimal(value.number))
            return Text(column, Glob((str(value),)))
        case SigmaBool():
            return Text(column, Glob((str(value),)))
        case SigmaCompareExpression() if value.op in ORDERS:
            return Number(column, ORDERS[value.op], _decimal(value.number.number))
        case SigmaRegularExpression():
            return _matches(column, value)
        case SigmaCIDRExpression():
            return InNetwork(column, value.network)
        case _:
            raise UnsupportedError(f"a {_kind(value)} cannot be compared with {column}")


def _glob(value: SigmaString) -> Glob:
    parts: list[str | Wild] = []
    for part in value.s:
        if isinstance(part, SpecialChars):
            parts.append(WILDS[part])
        elif isinstance(part, str):
            parts.append(part)
        else:
            raise UnsupportedError(
                f"the placeholder %{part.name}% has no values here; write them out"
            )
    return Glob(tuple(_merged(parts)), cased=isinstance(value, SigmaCasedString))


def _merged(parts: list[str | Wild]) -> list[str | Wild]:
    """Join texts side by side, and drop a ``*`` behind another."""
    found: list[str | Wild] = []
    for part in parts:
        if found and not isinstance(part, Wild) and not isinstance(found[-1], Wild):
            found[-1] += part
        elif part != "" and not (part is Wild.MANY and found[-1:] == [Wild.MANY]):
            found.append(part)
    return found


def _matches(column: str, value: SigmaRegularExpression) -> Matches:
    if value.contains_placeholder():
        raise UnsupportedError("a regular expression has a placeholder, which has no values here")
    flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
    return Matches(column, value.regexp.to_plain(regex=True), flags)


def _decimal(number: float) -> Decimal:
    found = Decimal(str(number))
    if found.adjusted() >= DIGITS - SCALE or found != round(found, SCALE):
        raise UnsupportedError(f"the number {number} has too many digits")
    return found


def _kind(value: SigmaType) -> str:
    kind: Callable[[object], str] = lambda each: type(each).__name__.removeprefix("Sigma")  # noqa: E731  # as a function it is longer than what it says
    return kind(value).lower()
