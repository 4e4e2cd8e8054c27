"""Compile a condition to Spark SQL: native functions only, because real-time mode runs no Python.

Text and not a ``Column``, because each call of a ``Column`` crosses into the JVM: a hundred rules took six seconds to
build [measured], and a rule that is switched on must not wait for a thousand others.

Every clause about a missing value is false, by ``coalesce`` at the clause, so that ``not`` above it is true and no alert
is lost to NULL.

What several clauses need of a column is made once per event, in a projection below: its lower case, its digits as an
address. ``Prepared`` says which; Spark does not merge the projections again, because it does not repeat what is dear.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from strandline.alerting.rules.condition import (
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
    Same,
    Text,
    TimePart,
    Wild,
    as_regex,
    clauses,
    is_in,
    steps,
)
from strandline.alerting.rules.evaluate import DIGITS, SCALE
from strandline.alerting.source import AlertSource
from strandline_quality.linear import linear

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
    for condition in conditions:
        for clause in clauses(condition):
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
