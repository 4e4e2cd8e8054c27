"""A SELECT of Spark's SQL in DuckDB's words, where DuckDB has words of exactly the same meaning.

sqlglot translates most. What it translates by a word that is near is done here: ``window(…)``, times of zones, averages of decimals.
What has no word of the same meaning is named and refused: a percentile, a sketch, a regular expression of Java's, the first of rows
without an order. A list says what may pass, and not what may not: a function that is new to it is refused.

Times have no zone here and are in UTC, as Spark's session has it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from strandline.core.errors import DefinitionError
from strandline.core.kind import length_of
from strandline.sql_text import WINDOW, Statement, parsed
from strandline.sql_words import SPARK

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
        "DayOfMonth",
        "TsOrDsToDate",
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
TEXTS = ("TEXT", "VARCHAR", "CHAR")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
NESTED = ("STRUCT", "ARRAY", "LIST", "MAP")
ROUNDED = ("DOUBLE", "FLOAT")
CASTS = {
    **dict.fromkeys(WHOLE, (*WHOLE, *PART, *TEXTS, "BOOLEAN")),
    **dict.fromkeys(ROUNDED, (*WHOLE, *ROUNDED)),
    "DECIMAL": (*WHOLE, *PART, *TEXTS),
    "BOOLEAN": (*WHOLE, *TEXTS, "BOOLEAN"),
    **dict.fromkeys(TEXTS, TEXTS),
    **dict.fromkeys(TIMES, (*TIMES, *TEXTS)),
    "NULL": (*WHOLE, *PART, *TEXTS, *TIMES, "BOOLEAN"),
}
"""To which types a cast is the same in both. Of a text each reads other numbers and times, of a time another number; a double is
another decimal (1.005 is 1.01 to Spark) and another text (1.0E10) to each."""
PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
"""How a time is written as both read it; what an offset or a zone says, DuckDB leaves out."""
WITH_TIME = re.compile(r"\s*[+-]?\d{4,}-\d{1,2}-\d{1,2}[T ].+", re.DOTALL)
UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    **{each: each for each in ("QUARTER", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
    "DD": "DAY",
}
"""To what a time is cut, in Spark's words and in DuckDB's."""
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
START, END, ASCII = "strandline_start", "strandline_end", "strandline_ascii"
MACROS = f"""
    CREATE MACRO {START}(moment, slide, begins, nth) AS
        make_timestamp(epoch_us(moment) - (((epoch_us(moment) - begins) % slide) + slide) % slide - nth * CAST(slide AS BIGINT));
    CREATE MACRO {END}(began, length) AS make_timestamp(epoch_us(began) + length);
    CREATE MACRO {ASCII}(said) AS CASE WHEN said IS NULL OR strlen(said) = length(said) THEN said
        ELSE error('upper and lower of other letters than a to z are not the same to Spark: ' || strlen(said) || ' bytes') END;
"""
"""What a translated SELECT calls beside DuckDB's own functions.

The capital of ß is SS to Java, and one letter to DuckDB: of letters that both know alike both are asked, and of others neither.
"""


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
        kind, said = type(node).__name__, node.sql(dialect=SPARK)[:80]
        if kind in LISTS and not _is_sorted_list(node):
            raise Lacking(f"the order of {said}: sort the list by array_sort")
        if isinstance(node, exp.Anonymous) and node.name in {START, END}:
            continue
        if kind not in SAME or _is_near(node):
            raise Lacking(f"a word of the same meaning for {said} ({kind})")


def _is_sorted_list(node: Any) -> bool:  # noqa: ANN401  # as above
    above = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    return type(above).__name__ in SORTS


def _is_near(node: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether DuckDB has the word, and means another thing by it in some case."""
    asked = NEAR.get(type(node).__name__)
    return asked is not None and asked(node)


def _is_nested_best(node: Any) -> bool:  # noqa: ANN401  # as above
    return bool(node.args.get("count")) or _is_nested(node.expression)


def _has_nested(node: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether values with values within are compared: a NULL within is the least to Spark, and the largest to DuckDB."""
    return any(map(_is_nested, (node.this, *node.expressions)))


def _has_rounded(node: Any) -> bool:  # noqa: ANN401  # as above
    return any(_kind(each) in ROUNDED for each in node.iter_expressions())


def _is_no_place(node: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether a part of a text begins elsewhere than at a number from 1: from its end, and from 0, each counts in another way."""
    start = node.args.get("start")
    return not (isinstance(start, exp.Literal) and start.name.isdigit() and int(start.name))


def _is_no_unit(node: Any) -> bool:  # noqa: ANN401  # as above
    return node.args["unit"].name.upper() not in UNITS


def _is_no_date(node: Any) -> bool:  # noqa: ANN401  # as above
    return bool(node.args.get("format")) or _kind(node.this) not in TIMES


def _is_of_zone(node: Any) -> bool:  # noqa: ANN401  # as above
    is_time = node.is_string and WITH_TIME.fullmatch(node.name)
    return bool(is_time) and not PLAIN_TIME.fullmatch(node.name)


NEAR: Mapping[str, Callable[[Any], bool]] = {
    "Lateral": lambda node: bool(node.args.get("outer")),  # DuckDB's has no row where OUTER has one
    "SHA2": lambda node: node.text("length") not in {"", "0", "256"},
    **dict.fromkeys(("ArgMax", "ArgMin"), _is_nested_best),
    **dict.fromkeys(("Min", "Max", "Greatest", "Least", "Ordered"), _has_nested),
    "IntDiv": lambda node: not {_kind(node.this), _kind(node.expression)} <= {*WHOLE},
    "Substring": _is_no_place,
    **dict.fromkeys(("Concat", "DPipe"), _has_rounded),
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), _is_no_unit),
    "TsOrDsToDate": _is_no_date,
    "Literal": _is_of_zone,
    **dict.fromkeys(("Cast", "TryCast"), lambda node: not _is_same_cast(node)),
}
"""In which cases a word that both have is not the same."""


def _is_same_cast(node: Any) -> bool:  # noqa: ANN401  # as above
    to = node.to.this.name
    if isinstance(node.this, exp.Literal) and node.this.is_string and to in TIMES:
        return bool(PLAIN_TIME.fullmatch(node.this.name))
    return to in CASTS.get(_kind(node.this), ())


def _kind(node: Any) -> str:  # noqa: ANN401  # as above
    """Return the name of a type; of what sqlglot knows too little, from what it is."""
    match node:
        case exp.Literal() if not node.is_string:
            is_double = "e" in node.name.lower()
            return "DOUBLE" if is_double else "DECIMAL" if "." in node.name else "INT"
        case exp.Null():
            return "NULL"
        case exp.Paren() | exp.Neg():
            return _kind(node.this)
        case exp.TimestampTrunc() | exp.AtTimeZone() | exp.FromTimeZone():
            return "TIMESTAMP"
        case exp.DateTrunc() | exp.TsOrDsToDate():
            return "DATE"
    name = str(node.type.this.name) if node.type else "UNKNOWN"
    is_rounded = name in ROUNDED and not _is_double(node)
    return "UNKNOWN" if is_rounded else name


def _is_nested(node: Any) -> bool:  # noqa: ANN401  # as above
    return isinstance(node, exp.Struct | exp.Array) or bool(
        node and node.type and _kind(node) in NESTED
    )


def _translated(tree: Any) -> Any:  # noqa: ANN401  # as above
    """Return a tree in DuckDB's words, from its leaves on: what is written in another way has parts that are as well."""
    for node in reversed([*tree.walk()]):
        made = _in_other_words(node)
        if made is not node:
            if not isinstance(made, exp.DataType):
                made.type = node.type
            node.replace(made)
            tree = made if node is tree else tree
    return tree


def _in_other_words(node: Any) -> Any:  # noqa: ANN401  # as above
    return WRITTEN.get(type(node).__name__, lambda same: same)(node)


def _without_zone(node: Any) -> Any:  # noqa: ANN401  # as above
    has_zone = node.this.name in {"TIMESTAMPTZ", "TIMESTAMPLTZ"}
    return exp.DataType.build("TIMESTAMP", dialect=DUCKDB) if has_zone else node


def _at_zone(node: Any) -> Any:  # noqa: ANN401  # as above
    utc = exp.AtTimeZone(this=node.this, zone=exp.Literal.string("UTC"))
    return exp.AtTimeZone(this=utc, zone=node.args["zone"])


def _counted(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return a count of what is true; DuckDB's own is NULL where Spark's is 0."""
    return exp.Count(this=exp.Case().when(node.this, exp.Literal.number(1)))


def _best(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return the value of the largest, which may be NULL; DuckDB's own passes over it."""
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return exp.Anonymous(this=name, expressions=[node.this, node.expression])


def _in_case(node: Any) -> Any:  # noqa: ANN401  # as above
    return type(node)(this=exp.Anonymous(this=ASCII, expressions=[node.this]))


def _trimmed(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return a text without the blanks around it; DuckDB's own takes other blanks away as well."""
    if not node.expression:
        node.set("expression", exp.Literal.string(" "))
    return node


def _as_date(node: Any) -> Any:  # noqa: ANN401  # as above
    return exp.Cast(this=node.this, to=exp.DataType.build("DATE", dialect=DUCKDB))


def _span(node: Any) -> Any:  # noqa: ANN401  # as above
    if not isinstance(node.args.get("unit"), exp.IntervalSpan):
        return node
    micros = exp.Literal.string(str(_micros(node.this.name, node.args["unit"])))
    return exp.Interval(this=micros, unit=exp.Var(this="MICROSECONDS"))


def _of_list(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return what is asked of a list of rows; that of none is empty to Spark, and NULL to DuckDB."""
    chosen = node.this if isinstance(node.this, exp.Filter) else None
    gathered = chosen.this if chosen else node.this
    if type(gathered).__name__ in LISTS:
        value = gathered.this
        if chosen:  # a list has no NULL, so what is left out may be one
            value = exp.Case().when(chosen.expression.this, value)
        listed = type(gathered)(**{**gathered.args, "this": value})
        node.set("this", exp.Coalesce(this=listed, expressions=[exp.Array()]))
    return node


def _cut(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return a time cut to a unit; by ``trunc`` it is a date."""
    unit = exp.Var(this=UNITS[node.args["unit"].name.upper()])
    cut = exp.TimestampTrunc(this=node.this, unit=unit)
    if isinstance(node, exp.TimestampTrunc):
        return cut
    return exp.Cast(this=cut, to=exp.DataType.build("DATE", dialect=DUCKDB))


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


def _cast(node: Any) -> Any:  # noqa: ANN401  # as above
    """Return a cast; to a whole number it cuts in Spark and rounds in DuckDB. Spark's throws unless it says otherwise, so DuckDB's does."""
    is_safe = isinstance(node, exp.TryCast) and node.args.get("safe")
    value = node.this
    if node.to.this.name in WHOLE and _kind(value) in PART:
        value = exp.Anonymous(this="trunc", expressions=[value.copy()])
    return (exp.TryCast if is_safe else exp.Cast)(this=value, to=node.to)


WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "DataType": _without_zone,
    "AtTimeZone": _at_zone,
    "Avg": _average,
    "CountIf": _counted,
    **dict.fromkeys(("ArgMax", "ArgMin"), _best),
    **dict.fromkeys(("ArraySort", "SortArray", "ArraySize"), _of_list),
    **dict.fromkeys(("Lower", "Upper"), _in_case),
    "Trim": _trimmed,
    "Div": _divided,
    "TsOrDsToDate": _as_date,
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), _cut),
    **dict.fromkeys(("Cast", "TryCast"), _cast),
    "Interval": _span,
}
"""What is written in another way."""


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
