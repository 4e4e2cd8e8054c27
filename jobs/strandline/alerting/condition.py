"""What a rule asks of an event: a tree of clauses, as a value.

A tree rather than a ``Column``, because it is needed in four ways: compiled for Spark (jobs/strandline/alerting/compile.py), evaluated
in Python to say which clause failed (jobs/strandline/alerting/compile.py), hashed as the version of its rule, and searched for clauses
that many rules share (jobs/strandline/alerting/one_plan.py).

A clause about a missing field is false, never unknown. SQL's third truth value would lose alerts: ``NOT (NULL = 'x')``
is NULL, and an exclusion of what a field contains would exclude every event that lacks the field.

    >>> from strandline.alerting.condition import AllOf, Text, Glob, simplified
    >>> str(simplified(AllOf((Text("Image", Glob.parse("*cmd.exe")), Text("Image", Glob.parse("*cmd.exe"))))))
    "Image ends with 'cmd.exe'"
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address
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


# Addresses as hexadecimal digits, so that a network is a prefix: eight digits for IPv4, 32 for IPv6.
#
# One text form would not do. An IPv6 address has many spellings (``::1``, ``0:0:0:0:0:0:0:1``, ``::FFFF:10.0.0.1``), and
# the prefixes that pySigma offers match some addresses outside of the network, as its own documentation says. So Spark's
# own functions write each address out once per event; a user-defined function is not possible in real-time mode.


OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"'\\A{OCTET}(?:[.]{OCTET}){{3}}\\z'"
IPV6 = r"'\\A[0-9a-f:]{2,39}\\z'"
GROUP = r"'\\A[0-9a-f]{1,4}\\z'"
GROUPS = 8


def steps(text: str, column: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Yield columns, by name, that are added one step after the other; the last is ``column("")``, NULL for no address.

    In one expression each part would be written out wherever it is read: 235,000 characters of SQL, and Spark took two
    minutes for the examples of ten rules.

    Args:
        text: SQL for the address.
        column: Returns the name of the column for a part.
    """
    plain, tail, four, six, left, right, whole = map(
        column, ("plain", "tail", "four", "six", "left", "right", "whole")
    )
    yield {plain: f"lower(split_part({text}, '%', 1))"}  # fe80::1%eth0 names a zone
    yield {tail: f"substring_index({plain}, ':', -1)"}
    is_four = f"{text} RLIKE {IPV4}"
    is_mapped = f"contains({plain}, ':') AND {tail} RLIKE {IPV4}"
    yield {four: f"CASE WHEN {is_four} OR ({is_mapped}) THEN {_ipv4(tail)} END"}
    head = f"left({plain}, length({plain}) - length({tail}))"
    spelled = f"concat({head}, left({four}, 4), ':', right({four}, 4))"
    yield {
        six: f"CASE WHEN {is_four} THEN NULL WHEN {four} IS NOT NULL THEN {spelled} "
        f"WHEN {plain} RLIKE {IPV6} THEN {plain} END"
    }
    yield {left: f"split_part({six}, '::', 1)", right: f"split_part({six}, '::', 2)"}
    count = f"({_groups(left)} + {_groups(right)})"
    filled = f"concat({left}, if({left} = '', '', ':'), repeat('0:', {GROUPS} - {count}), {right})"
    has_gap = f"contains({six}, '::')"
    yield {whole: f"if({has_gap}, rtrim(':', {filled}), {six})"}
    is_whole = f"if({has_gap}, {count} < {GROUPS}, {_groups(six)} = {GROUPS})"
    gaps = f"length({six}) - length(replace({six}, '::'))"
    is_spelled = f"{gaps} <= 2 AND NOT contains({six}, ':::')"
    digits = f"if({is_whole} AND {is_spelled}, {_written(whole)}, NULL)"
    yield {column(""): f"CASE WHEN {six} IS NOT NULL THEN {digits} ELSE {four} END"}


def is_in(digits: str, network: IPv4Network | IPv6Network) -> str:
    """Return SQL for whether the digits of an address lie in a network; NULL where there are none."""
    length = network.max_prefixlen // 4
    whole, rest = divmod(network.prefixlen, 4)
    prefix = f"{int(network.network_address):0{length}x}"
    found = [f"length({digits}) = {length}"]
    if whole:
        found.append(f"startswith({digits}, '{prefix[:whole]}')")
    if rest:
        start = int(prefix[whole], 16)
        allowed = ", ".join(f"'{each:x}'" for each in range(start, start + (1 << (4 - rest))))
        found.append(f"substring({digits}, {whole + 1}, 1) IN ({allowed})")
    return f"({' AND '.join(found)})"


def contains(text: str, network: IPv4Network | IPv6Network) -> bool:
    """Return whether an address lies in a network, in Python."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.version == network.version and address in network


def _ipv4(text: str) -> str:
    octets = (f"try_cast(split_part({text}, '.', {n}) AS INT)" for n in range(1, 5))
    digits = ", ".join(f"lpad(lower(hex({octet})), 2, '0')" for octet in octets)
    return f"concat({digits})"


def _written(whole: str) -> str:
    """Return SQL for 32 digits of eight hexadecimal groups; NULL where one is none."""
    groups = (f"split_part({whole}, ':', {n})" for n in range(1, GROUPS + 1))
    written = ", ".join(f"if({g} RLIKE {GROUP}, lpad({g}, 4, '0'), NULL)" for g in groups)
    return f"concat({written})"


def _groups(text: str) -> str:
    """Return SQL for how many groups a text has."""
    return f"if({text} = '', 0, length({text}) - length(replace({text}, ':')) + 1)"


# Write a text with wildcards as a regular expression that never searches twice.
#
# ``LIKE '%a%b%c%'`` becomes ``.*a.*b.*c.*`` in Spark, which a hostile text makes cost its length to the power of the
# wildcards. The first place at which a part fits is always good enough for the parts behind it, so each part is an atomic
# group that keeps the first place it found: ``(?>.*?a)(?>.*?b)``. Java and Python read the text alike.


def as_regex(glob: Glob) -> str:
    """Return a regular expression for a search, which the whole text must match."""
    runs: list[str] = [""]
    for part in glob.parts:
        if part is Wild.MANY:
            runs.append("")
        elif part is Wild.ONE:
            runs[-1] += "."
        else:
            runs[-1] += re.escape(part)
    first, *rest = runs
    if not rest:
        return rf"(?s)\A{first}(?!.)"
    *middle, last = rest
    found = "".join(f"(?>.*?{run})" for run in middle if run)
    # The last part may end at the end only; a lookahead for it there needs no second search.
    return rf"(?s)\A{first}{found}" + (rf".*{last}(?!.)" if last else "")
