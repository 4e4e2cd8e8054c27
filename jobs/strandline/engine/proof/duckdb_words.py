"""A SELECT of Spark's SQL in DuckDB's words, where DuckDB has words of exactly the same meaning.

sqlglot translates most. What it translates by a word that is near is done here: ``window(…)``, times of zones, averages of decimals.
What has no word of the same meaning is named and refused: a percentile, a sketch, a regular expression of Java's, the first of rows
without an order. A list says what may pass, and not what may not: a function that is new to it is refused.

Times have no zone here and are in UTC, as Spark's session has it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from strandline.core.errors import DefinitionError
from strandline.core.lateness import length_of
from strandline.sql_text import SPARK, WINDOW, Statement, parsed

DUCKDB = "duckdb"
MICROSECOND = timedelta(microseconds=1)

SAME = frozenset(
    [
        "Select",
        "From",
        "Join",
        "Where",
        "Group",
        "Having",
        "Subquery",
        "CTE",
        "With",
        "Table",
        "TableAlias",
        "Column",
        "Identifier",
        "Alias",
        "Star",
        "Literal",
        "Boolean",
        "Null",
        "Paren",
        "Neg",
        "Not",
        "And",
        "Or",
        "EQ",
        "NEQ",
        "GT",
        "GTE",
        "LT",
        "LTE",
        "NullSafeEQ",
        "Is",
        "In",
        "Between",
        "Exists",
        "Case",
        "If",
        "Coalesce",
        "Nullif",
        "Cast",
        "TryCast",
        "DataType",
        "DataTypeParam",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "IntDiv",
        "Mod",
        "Abs",
        "Greatest",
        "Least",
        "Count",
        "CountIf",
        "Sum",
        "Min",
        "Max",
        "Avg",
        "ArrayAgg",
        "ArrayUniqueAgg",
        "SortArray",
        "ArraySize",
        "ArrayContains",
        "Bracket",
        "Dot",
        "Lower",
        "Upper",
        "Length",
        "Concat",
        "DPipe",
        "Substring",
        "Trim",
        "StartsWith",
        "EndsWith",
        "Interval",
        "IntervalSpan",
        "Var",
        "TimestampTrunc",
        "DateTrunc",
        "Year",
        "Month",
        "Day",
        "Hour",
        "Minute",
        "AtTimeZone",
        "FromTimeZone",
        "Distinct",
        "Union",
        "Values",
        "Tuple",
        "Ordered",
        "Order",
        "Window",
        "WindowSpec",
        "RowNumber",
        "Rank",
        "DenseRank",
        "Lag",
        "Lead",
        "Lateral",
        "Explode",
        "Unnest",
        "Struct",
        "PropertyEQ",
        "Filter",
        "SHA2",
        "LogicalAnd",
        "LogicalOr",
        "ArgMax",
        "ArgMin",
        "Array",
        "ArraySort",
    ]
)
"""What both have, by the names of sqlglot's nodes."""

LISTS = frozenset(["ArrayAgg", "ArrayUniqueAgg"])
SORTS = frozenset(["SortArray", "ArraySort", "ArraySize"])
"""What makes a list the same in whichever order rows come."""

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
PART = ("DECIMAL", "DOUBLE", "FLOAT")
QUOTIENT = """
CASE WHEN n > 0 THEN CAST(sign(s) * ((2 * abs(s) * CAST(10000 AS HUGEINT) + n) // (2 * n)) AS DECIMAL(38, 0)) * CAST('{unit}' AS DECIMAL({digits}, {digits})) END
"""


class Lacking(Exception):  # noqa: N818  # said as a DefinitionError, with the table
    """DuckDB lacks a word."""


def in_duckdb(statement: Statement, sources: Mapping[str, Mapping[str, str]]) -> str:
    """Return a SELECT as DuckDB reads it.

    Args:
        statement: The SELECT.
        sources: For each table in braces, in their order, the name of a view; and of its columns the types, as DuckDB calls them.

    Raises:
        DefinitionError: DuckDB lacks a word of the same meaning.
    """
    try:
        return _written(statement, sources)
    except Lacking as error:
        raise DefinitionError(
            f"DuckDB lacks {error}, so it cannot recompute this table",
            hint="`strandline verify TABLE` recomputes it by Spark; or write the SELECT without it.",
        ) from error
    except SqlglotError as error:
        raise DefinitionError(
            f"the SELECT cannot be written for DuckDB: {str(error).splitlines()[0]}",
            hint="`strandline verify TABLE` recomputes it by Spark.",
        ) from error


def _written(statement: Statement, sources: Mapping[str, Mapping[str, str]]) -> str:
    tree = parsed(statement.text, tuple(sources))
    for read, name in zip(statement.reads, sources, strict=True):
        for table in tree.find_all(exp.Table):
            if table.name == name and not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(read.bare)))
    for select in list(tree.find_all(exp.Select)):
        _without_windows(select)
    schema = MappingSchema(
        {name: dict(columns) for name, columns in sources.items()}, dialect=DUCKDB
    )
    named = qualify(tree, schema=schema, dialect=SPARK, validate_qualify_columns=False)
    typed = annotate_types(named, schema=schema, dialect=SPARK)
    _refuse_other_words(typed)
    return str(_translated(typed).sql(dialect=DUCKDB))


# ``window(at, '10 minutes', '5 minutes')``: a struct of the start and the end of each window in which a row lies.


@dataclass(frozen=True, slots=True)
class _Window:
    """Windows of a length, each a slide after the one before it, in microseconds."""

    at: Any
    length: int
    slide: int
    begins: int

    @property
    def start(self) -> Any:  # noqa: ANN401  # a node of a tree
        """Return the start of the window of a row; with a slide that of the one with a number."""
        nth = exp.column("nth", table=SLIDES) if self.is_sliding else exp.Literal.number(0)
        return self._called(START, self.at.copy(), self.slide, self.begins, nth)

    @property
    def end(self) -> Any:  # noqa: ANN401  # as above
        """Return its end."""
        return self._called(END, self.start, self.length)

    @staticmethod
    def _called(name: str, *given: Any) -> Any:  # noqa: ANN401  # as above
        values = (exp.Literal.number(each) if isinstance(each, int) else each for each in given)
        return exp.Anonymous(this=name, expressions=[*values])

    @property
    def is_sliding(self) -> bool:
        """Return whether a row lies in several."""
        return self.length != self.slide

    @property
    def most(self) -> int:
        """Return in how many a row lies at most."""
        return -(-self.length // self.slide)


SLIDES = "strandline_slides"
START, END = "strandline_start", "strandline_end"
MACROS = f"""
    CREATE MACRO {START}(moment, slide, begins, nth) AS
        make_timestamp(epoch_us(moment) - (((epoch_us(moment) - begins) % slide) + slide) % slide - nth * CAST(slide AS BIGINT));
    CREATE MACRO {END}(began, length) AS make_timestamp(epoch_us(began) + length);
"""
"""What a translated SELECT calls beside DuckDB's own functions."""


def _without_windows(select: Any) -> None:  # noqa: ANN401  # as above
    """Write the windows of a SELECT as what they are: a start and an end."""
    calls = [each for each in _own(select) if _is_window(each)]
    if not calls:
        return
    if len({each.sql() for each in calls}) > 1:
        raise Lacking("two windows in one SELECT")
    window = _window(calls[0])
    for node in list(_own(select)):
        match node:
            case exp.Dot() if _is_window(node.this):
                node.replace(_edge(window, node.name))
            case exp.Column() if node.table == "window" and node.name in {"start", "end"}:
                node.replace(_edge(window, node.name))
            case exp.Column() if node.name == "window" and not node.table:
                raise Lacking("a window as a value: select its start and its end")
    for call in [each for each in _own(select) if _is_window(each)]:
        if not isinstance(call.parent, exp.Group):
            raise Lacking("a window as a value: select its start and its end")
        call.replace(window.start)
    select.where(exp.Not(this=exp.Is(this=window.at.copy(), expression=exp.Null())), copy=False)
    if window.is_sliding:
        listed = ", ".join(f"({number})" for number in range(window.most))
        numbers: Any = parse_one(f"SELECT nth FROM VALUES {listed} AS n(nth)", dialect=SPARK)  # noqa: S608  # numbers
        select.join(numbers.subquery(SLIDES), join_type="cross", copy=False)
        select.where(
            exp.LT(this=window.at.copy(), expression=window.end), copy=False
        )  # where the length is no multiple of the slide


def _own(select: Any) -> Iterator[Any]:  # noqa: ANN401  # as above
    """Yield the nodes of a SELECT that are in no other SELECT within it."""
    for node in select.walk(prune=lambda each: each is not select and isinstance(each, exp.Query)):
        if node is select or not isinstance(node, exp.Query):
            yield node


def _is_window(node: Any) -> bool:  # noqa: ANN401  # as above
    return isinstance(node, exp.Anonymous) and node.name.lower() == WINDOW


def _window(call: Any) -> _Window:  # noqa: ANN401  # as above
    at, *lengths = call.expressions
    if not all(isinstance(each, exp.Literal) and each.is_string for each in lengths):
        raise Lacking("a window of a length that is no text")
    try:
        micros = [length_of(each.name) // MICROSECOND for each in lengths]
    except ValueError as error:
        raise Lacking(f"the window {call.sql(dialect=SPARK)}") from error
    length, slide, begins = (*micros, *[micros[0]][len(micros) - 1 :], 0, 0)[:3]
    return _Window(at, length, slide, begins)


def _edge(window: _Window, name: str) -> Any:  # noqa: ANN401  # as above
    return window.start if name.lower() == "start" else window.end


# What passes, and what is written in another way.


def _refuse_other_words(tree: Any) -> None:  # noqa: ANN401  # as above
    for node in tree.walk():
        kind = type(node).__name__
        if kind in LISTS and type(node.parent).__name__ not in SORTS:
            raise Lacking(f"the order of {node.sql(dialect=SPARK)}: sort the list by array_sort")
        if kind in SAME:
            continue
        if isinstance(node, exp.Anonymous) and node.name in {START, END}:
            continue
        said = node.sql(dialect=SPARK)
        raise Lacking(f"a word of the same meaning for {said[:80]} ({kind})")


def _translated(tree: Any) -> Any:  # noqa: ANN401  # as above
    return tree.transform(_in_other_words)


def _in_other_words(node: Any) -> Any:  # noqa: ANN401, PLR0911  # a case each
    match node:
        case exp.DataType() if node.this.name in {"TIMESTAMPTZ", "TIMESTAMPLTZ"}:
            return exp.DataType.build("TIMESTAMP", dialect=DUCKDB)
        case exp.AtTimeZone() if not isinstance(node.this, exp.AtTimeZone):
            utc = exp.AtTimeZone(this=node.this, zone=exp.Literal.string("UTC"))
            return exp.AtTimeZone(this=utc, zone=node.args["zone"])
        case exp.Avg():
            return _average(node)
        case exp.CountIf():  # DuckDB's own is NULL where Spark's is 0
            chosen = exp.Case().when(node.this, exp.Literal.number(1))
            return exp.Count(this=chosen)
        case exp.Div():
            return _divided(node)
        case exp.Cast() | exp.TryCast() if node.to.this.name in WHOLE:
            return _whole(node)
        case exp.Interval() if isinstance(node.args.get("unit"), exp.IntervalSpan):
            micros = _micros(node.this.name, node.args["unit"])
            return exp.Interval(
                this=exp.Literal.string(str(micros)), unit=exp.Var(this="MICROSECONDS")
            )
    return node


def _average(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return an average; of decimals with four digits more, rounded half up, as Spark's is."""
    kind = node.this.type
    name = kind.this.name if kind else "UNKNOWN"
    if name in WHOLE or _is_double(node.this):
        return node
    # Of a computed decimal sqlglot does not know how many digits Spark gives it.
    is_known = isinstance(node.this, exp.Column | exp.Cast | exp.TryCast) and name == "DECIMAL"
    digits = [int(each.name) for each in kind.expressions] if is_known else []
    if len(digits) != 2:  # noqa: PLR2004  # precision and scale
        raise Lacking(f"the digits of {node.sql(dialect=SPARK)}: cast what is averaged")
    if isinstance(node.parent, exp.Window | exp.Filter):
        raise Lacking("an average of decimals over a window of rows")
    scale = digits[1] + 4
    value = node.this.sql(dialect=DUCKDB)
    unit = f"0.{'0' * (scale - 1)}1"
    text = QUOTIENT.format(unit=unit, digits=scale)
    whole = f"sum(CAST({value} * {10 ** digits[1]} AS HUGEINT))"
    swapped = parse_one(text, dialect=DUCKDB)
    counted = {"s": whole, "n": f"CAST(count({value}) AS HUGEINT)"}
    return swapped.transform(
        lambda each: (
            parse_one(counted[each.name], dialect=DUCKDB)
            if isinstance(each, exp.Column) and not each.table and each.name in counted
            else each
        )
    )


def _is_double(node: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether a number is a double; what sqlglot takes for one may be a decimal to Spark, as 2.5 is."""
    if not node.type or node.type.this.name not in {"DOUBLE", "FLOAT"}:
        return False
    if isinstance(node, exp.Cast | exp.TryCast | exp.Column):
        return True
    return not any(
        (isinstance(each, exp.Literal) and not each.is_string and "." in each.name)
        or (isinstance(each, exp.Column) and each.type and each.type.this.name == "DECIMAL")
        for each in node.walk()
    )


def _divided(node: Any) -> Any:  # noqa: ANN401  # as above
    kinds = [
        each.type.this.name if each.type else "UNKNOWN" for each in (node.this, node.expression)
    ]
    sides = (node.this, node.expression)
    if any(map(_is_double, sides)) or all(each in WHOLE for each in kinds):
        return node
    raise Lacking(
        f"the digits of {node.sql(dialect=SPARK)}: divide doubles, as CAST(… AS double), or whole numbers"
    )


def _whole(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return a cast to a whole number, which cuts in Spark and rounds in DuckDB."""
    name = node.this.type.this.name if node.this.type else "UNKNOWN"
    if name in {*WHOLE, "BOOLEAN", "UNKNOWN"} or name not in PART:
        if name == "UNKNOWN":
            raise Lacking(f"the type of what is cast in {node.sql(dialect=SPARK)}")
        return node
    cut = exp.Anonymous(this="trunc", expressions=[node.this.copy()])
    return type(node)(this=cut, to=node.to.copy())


SPANS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}


def _micros(text: str, span: Any) -> int:  # noqa: ANN401  # as above
    """Return the microseconds of an interval such as ``'02:00.001' MINUTE TO SECOND``."""
    units = [*SPANS]
    first, last = (str(span.args[each].name).upper().rstrip("S") for each in ("this", "expression"))
    if first not in units or last not in units:
        raise Lacking(f"the interval {text} {first} TO {last}")
    chosen = units[units.index(first) : units.index(last) + 1]
    sign = -1 if text.startswith("-") else 1
    parts = text.lstrip("+-").replace(" ", ":").split(":")
    if len(parts) != len(chosen):
        raise Lacking(f"the interval {text} {first} TO {last}")
    total = sum(
        timedelta(seconds=float(part) * SPANS[unit]) // MICROSECOND
        for part, unit in zip(parts, chosen, strict=True)
    )
    return sign * total
