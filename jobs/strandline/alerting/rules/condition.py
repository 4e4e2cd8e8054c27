"""What a rule asks of an event: a tree of clauses, as a value.

A tree rather than a ``Column``, because it is needed in four ways: compiled for Spark (jobs/strandline/alerting/rules/compile.py), evaluated
in Python to say which clause failed (jobs/strandline/alerting/rules/explain.py), hashed as the version of its rule, and searched for clauses
that many rules share (jobs/strandline/alerting/rules/one_plan.py).

A clause about a missing field is false, never unknown. SQL's third truth value would lose alerts: ``NOT (NULL = 'x')``
is NULL, and an exclusion of what a field contains would exclude every event that lacks the field.

    >>> from strandline.alerting.rules.condition import AllOf, Text, Glob, simplified
    >>> str(simplified(AllOf((Text("Image", Glob.parse("*cmd.exe")), Text("Image", Glob.parse("*cmd.exe"))))))
    "Image ends with 'cmd.exe'"
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import TypeAlias

from strandline_quality.linear import linear


class Wild(StrEnum):
    """A wildcard of a text."""

    MANY = "*"
    ONE = "?"


@dataclass(frozen=True, slots=True)
class Glob:
    """A text with wildcards; the case of letters is ignored unless ``cased``."""

    parts: "tuple[str | Wild, ...]"
    cased: bool = False

    @classmethod
    def parse(cls, text: str, *, cased: bool = False) -> "Glob":
        """Return the glob of a text in which every ``*`` and ``?`` is a wildcard."""
        parts: list[str | Wild] = []
        for mark in text:
            if mark in {"*", "?"}:
                parts.append(Wild(mark))
            elif parts and not isinstance(parts[-1], Wild):
                parts[-1] += mark
            else:
                parts.append(mark)
        return cls(tuple(parts), cased)

    @classmethod
    def around(cls, parts: "tuple[str | Wild, ...]", *, cased: bool = False) -> "Glob":
        """Return the glob of texts that contain the parts anywhere."""
        before = () if parts[:1] == (Wild.MANY,) else (Wild.MANY,)
        after = () if parts[-1:] == (Wild.MANY,) else (Wild.MANY,)
        return cls((*before, *parts, *after) if parts else (Wild.MANY,), cased)

    @property
    def folded(self) -> "Glob":
        """Return it as it is compared: in lower case, unless case counts."""
        if self.cased:
            return self
        return Glob(tuple(p if isinstance(p, Wild) else p.lower() for p in self.parts))

    def __str__(self) -> str:
        """Return what it asks, as words."""
        shown = "".join(self.parts)
        plain = [part for part in self.parts if not isinstance(part, Wild)]
        case = " (case counts)" if self.cased else ""
        match [part if isinstance(part, Wild) else "" for part in self.parts]:
            case [] | [""]:
                return f"is {shown!r}{case}"
            case [Wild.MANY]:
                return "has any value"
            case [Wild.MANY, "", Wild.MANY]:
                return f"contains {plain[0]!r}{case}"
            case ["", Wild.MANY]:
                return f"begins with {plain[0]!r}{case}"
            case [Wild.MANY, ""]:
                return f"ends with {plain[0]!r}{case}"
            case _:
                return f"is like {shown!r}{case}"


class Order(StrEnum):
    """How a number is compared."""

    IS = "="
    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="


class TimePart(StrEnum):
    """A part of a time, in UTC; weeks are those of ISO 8601."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Text:
    """A column is like a text."""

    column: str
    glob: Glob

    def __str__(self) -> str:
        return f"{self.column} {self.glob}"


@dataclass(frozen=True, slots=True)
class Matches:
    """A regular expression finds something in a column.

    Raises:
        RefusedError: The expression is not of Sigma's flavour, or RE2 has no word for it.
    """

    column: str
    pattern: str
    flags: str = ""

    def __post_init__(self) -> None:
        linear(self.pattern, self.flags)

    def __str__(self) -> str:
        return f"{self.column} matches /{self.pattern}/{self.flags}"


@dataclass(frozen=True, slots=True)
class Number:
    """A column compares with a number; a text counts where it is one."""

    column: str
    order: Order
    number: Decimal

    def __str__(self) -> str:
        return f"{self.column} {self.order} {self.number}"


@dataclass(frozen=True, slots=True)
class InNetwork:
    """A column is an address in a network."""

    column: str
    network: IPv4Network | IPv6Network

    def __str__(self) -> str:
        return f"{self.column} is in {self.network}"


@dataclass(frozen=True, slots=True)
class Missing:
    """A column has no value. A field that is null and one that is absent are the same in a table."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} is missing"


@dataclass(frozen=True, slots=True)
class Same:
    """A column is like another one: equal, or with the other at its beginning, at its end, or anywhere."""

    column: str
    other: str
    starts: bool = False
    ends: bool = False

    def __str__(self) -> str:
        how = {
            (False, False): "equals",
            (True, False): "begins with",
            (False, True): "ends with",
            (True, True): "contains",
        }
        return f"{self.column} {how[self.starts, self.ends]} {self.other}"


@dataclass(frozen=True, slots=True)
class InTime:
    """A part of a time is a number."""

    column: str
    part: TimePart
    number: int

    def __str__(self) -> str:
        return f"the {self.part} of {self.column} is {self.number}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: "tuple[Condition, ...]"

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: "tuple[Condition, ...]"

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Condition"

    def __str__(self) -> str:
        return f"not {self.part}"


Clause: TypeAlias = Text | Matches | Number | InNetwork | Missing | Same | InTime
Condition: TypeAlias = Clause | AllOf | AnyOf | Not


def clauses(condition: Condition) -> Iterator[Clause]:
    """Yield every clause of a condition."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from clauses(part)
        case Not(part):
            yield from clauses(part)
        case _:
            yield condition


def columns(condition: Condition) -> frozenset[str]:
    """Return the columns that a condition looks at."""
    found = set()
    for clause in clauses(condition):
        found.add(clause.column)
        if isinstance(clause, Same):
            found.add(clause.other)
    return frozenset(found)


def simplified(condition: Condition) -> Condition:
    """Return the same condition in one form: flat, without repetitions, cheap parts first, texts in lower case.

    Two rules of one meaning get one version, however their files order their lines; and Spark, which stops at the first
    part that decides, sees the cheap ones first.
    """
    match condition:
        case AllOf() | AnyOf():
            kind = type(condition)
            parts: dict[Condition, None] = {}
            for part in map(simplified, condition.parts):
                inner = part.parts if isinstance(part, kind) else (part,)
                parts.update(dict.fromkeys(inner))
            ordered = sorted(parts, key=lambda part: (cost(part), repr(part)))
            return ordered[0] if len(ordered) == 1 else kind(tuple(ordered))
        case Not(Not(part)):
            return simplified(part)
        case Not(part):
            return Not(simplified(part))
        case Text(column, glob):
            return Text(column, glob.folded)
        case _:
            return condition


def cost(condition: Condition) -> int:  # noqa: PLR0911  # a kind of condition each
    """Return about how much a condition costs, so that cheap ones are asked first."""
    match condition:
        case Missing() | Number():
            return 1
        case InTime() | Same():
            return 3
        case InNetwork():
            return 4
        case Text(_, glob):
            wild = sum(isinstance(part, Wild) for part in glob.parts)
            is_simple = len(glob.parts) - wild <= 1
            return 2 + wild if is_simple else 12
        case Matches():
            return 30
        case AllOf(parts) | AnyOf(parts):
            return sum(map(cost, parts))
        case Not(part):
            return cost(part)
