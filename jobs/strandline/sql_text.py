"""A text of SQL, understood without Spark: one SELECT over tables that are named in braces, and nothing else.

The catalog is read without a JVM, so what can be wrong with a text is found here as far as a text alone can be wrong: what is no
SELECT, what reads a table by other means than its name in braces, what has another value tomorrow. Whether its columns are there,
only Spark's analyser knows, when the function is asked (jobs/strandline/sql_function.py).

sqlglot parses the text, and what Spark runs is the text itself: sqlglot reads Spark's ``a::int``, which throws, as a TRY_CAST, so a
text that it had written would be another function. Where a text must be cut (a WHERE of silver), it is cut between its own words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Any

from strandline.sql_words import (
    SPARK,
    Kind,
    SqlError,
    Word,
    line_of,
    line_within,
    normal,
    pieces,
    refuse_calls,
    refuse_chance_of_order,
    words,
)

MARKER = "strandline_table_"
"""What a name in braces is to the parsers: the name of a table, with a number for each place."""


NAMED = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")


@dataclass(frozen=True, slots=True)
class Read:
    """A table that a text reads, named in braces.

    Args:
        name: Its name, with or without its layer.
        start: Where the braces begin.
        end: Where they end.
        is_named: Whether the text gives it another name there.
    """

    name: str
    start: int
    end: int
    is_named: bool = False

    @property
    def bare(self) -> str:
        """Return the name without the layer."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT.

    Args:
        text: Its text as written.
        reads: The tables that it reads, in their order in the text.
        columns: The names of its columns; None where they are those of a table (``*``).
    """

    text: str
    reads: tuple[Read, ...]
    columns: tuple[str, ...] | None

    def asked(self, names: "tuple[str, ...]") -> str:
        """Return the text with the name of a view for each table, under the table's own name."""
        return _replaced(
            self.text,
            [
                (each, name if each.is_named else f"{name} AS `{each.bare}`")
                for each, name in zip(self.reads, names, strict=True)
            ],
        )


def _replaced(text: str, by: "list[tuple[Read, str]]") -> str:
    for read, name in reversed(by):
        text = f"{text[: read.start]}{name}{text[read.end :]}"
    return text


def _in_braces(text: str) -> Iterator[Read]:
    for piece in pieces(text):
        if piece.kind is not Kind.CODE:
            continue
        for found in NAMED.finditer(piece.text):
            name, at = found[1].strip(), piece.at + found.start()
            if not NAME.fullmatch(name):
                raise SqlError(
                    f"{found[0]} is no name of a table",
                    hint="write a table that it reads in braces, such as {device_telemetry} or {silver.device_telemetry}.",
                    line=line_of(text, at),
                )
            yield Read(name, at, piece.at + found.end())
        rest = NAMED.sub(lambda each: " " * len(each[0]), piece.text)
        if lone := re.search(r"[{}]", rest):
            raise SqlError(
                f"a {lone[0]} without its other half",
                hint="a table that it reads is written in braces: {device_telemetry}.",
                line=line_of(text, piece.at + lone.start()),
            )


def parsed(text: str, names: "tuple[str, ...]") -> Any:  # noqa: ANN401  # sqlglot is imported where a text is read
    """Return the tree of a text, in which each table in braces has the name that is given for it.

    Raises:
        SqlError: It is not one statement that can be read.
    """
    import sqlglot  # noqa: PLC0415  # a project without SQL need not wait for it
    from sqlglot.errors import ParseError, SqlglotError  # noqa: PLC0415  # as above

    reads = list(_in_braces(text))
    try:
        shown = _with_windows(_replaced(text, [*zip(reads, names, strict=True)]))
        found = sqlglot.parse(shown, dialect=SPARK)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = f" at {_shown(first['highlight'], reads)!r}" if first.get("highlight") else ""
        raise SqlError(
            f"it cannot be read as SQL{near}: {first.get('description') or error}",
            hint=_misspelt(text, int(first.get("line") or 1)),
            line=int(first.get("line") or 1),
        ) from error
    except (SqlglotError, RecursionError) as error:
        raise SqlError(
            f"it cannot be read as SQL: {str(error).splitlines()[0][:200]}",
            hint="write one SELECT as Spark reads it.",
        ) from error
    trees = [each for each in found if each is not None]
    if len(trees) != 1:
        count = "no statement" if not trees else f"{len(trees)} statements"
        raise SqlError(
            f"it has {count}, and a table is one SELECT",
            hint="leave one; what is computed in several steps is WITH name AS (…) SELECT …",
        )
    return trees[0]


WINDOW = "strandline_window"
"""What the function ``window`` is to sqlglot, to which ``GROUP BY window(…)`` begins the clause WINDOW."""


def _with_windows(text: str) -> str:
    found = [
        each
        for each, after in pairwise(words(text))
        if each.upper == "WINDOW" and after.text == "("
    ]
    for each in reversed(found):
        text = f"{text[: each.at]}{WINDOW}{text[each.end :]}"
    return text


def _shown(marker: str, reads: "list[Read]") -> str:
    """Return a word of a text as it was written: a table in its braces."""
    number = marker.removeprefix(MARKER)
    return f"{{{reads[int(number)].name}}}" if number != marker else marker


KEYWORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "OUTER",
    "FULL",
    "CROSS",
    "UNION",
    "DISTINCT",
    "BETWEEN",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "WINDOW",
    "PARTITION",
    "ORDER",
    "COALESCE",
    "COUNT",
]


def _misspelt(text: str, line: int) -> str:
    """Return a hint with the keyword that a word of a line may mean."""
    lines = text.splitlines()
    on_line = lines[line - 1] if line <= len(lines) else ""
    for word in re.findall(r"[A-Za-z]{3,}", on_line):
        near = get_close_matches(word.upper(), KEYWORDS, n=1, cutoff=0.75)
        if near and near[0] != word.upper():
            return f"does {word} mean {near[0]}?"
    return "correct the SQL there: it is read as Spark's."


@cache
def understood(text: str) -> Statement:
    """Return a text as what it is: one SELECT.

    Raises:
        SqlError: It is anything else, or does what the function of a table must not.
    """
    reads = tuple(_in_braces(text))
    markers = tuple(f"{MARKER}{number}" for number in range(len(reads)))
    tree = parsed(text, markers)
    _refuse_other_than_select(tree, text)
    _refuse_clauses(tree)
    refuse_chance_of_order(tree)
    _refuse_subqueries_as_values(tree)
    _refuse_marks(text)
    refuse_calls(text)
    named = _refuse_other_tables(tree)
    for read, marker in zip(reads, markers, strict=True):
        if marker not in named:
            raise SqlError(
                f"{{{read.name}}} is written where no table is read",
                hint="write tables in braces after FROM or JOIN; a column of one is written device_telemetry.value.",
                line=line_of(text, read.start),
            )
    if not reads:
        raise SqlError(
            "it reads no table",
            hint="name a table in braces: SELECT … FROM {device_telemetry}.",
        )
    return Statement(
        text,
        tuple(
            Read(each.name, each.start, each.end, named[marker])
            for each, marker in zip(reads, markers, strict=True)
        ),
        _columns(tree),
    )


def _refuse_other_than_select(tree: Any, text: str) -> None:  # noqa: ANN401  # as above
    from sqlglot import exp  # noqa: PLC0415  # as above

    if isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        first = next(each for each in words(text) if each.text != "(")
        if first.upper not in {"SELECT", "WITH"}:
            raise SqlError(
                f"it begins with {first.text}, and a table's function begins with SELECT or WITH",
                hint="write SELECT … FROM {a_table}, in this order.",
                line=line_of(text, first.at),
            )
        return
    what = type(tree).__name__.upper() if isinstance(tree, exp.DML | exp.DDL | exp.Command) else ""
    raise SqlError(
        f"it is {f'a statement {what}' if what else 'no SELECT'}, and a table's function is one SELECT",
        hint="write SELECT … FROM {a_table}; the engine makes the table and writes its rows.",
    )


def _refuse_clauses(tree: Any) -> None:  # noqa: ANN401  # as above
    """Refuse what would make rows depend on their order, on chance or on a program outside."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    refused = {
        exp.Limit: ("LIMIT", "which rows come first is chance; choose them by WHERE"),
        exp.Fetch: ("FETCH", "which rows come first is chance; choose them by WHERE"),
        exp.Offset: ("OFFSET", "which rows come first is chance; choose them by WHERE"),
        exp.TableSample: (
            "TABLESAMPLE",
            "a sample has other rows each time; choose rows by WHERE, such as on a hash of an id",
        ),
        exp.QueryTransform: ("TRANSFORM", "no program runs within a table's function"),
        exp.Placeholder: ("a parameter", "write the value itself"),
        exp.Parameter: ("a parameter", "write the value itself"),
        exp.Into: ("INTO", "the engine writes the rows"),
    }
    for node in tree.walk():
        for kind, (what, instead) in refused.items():
            if isinstance(node, kind):
                raise SqlError(f"it has {what}", hint=f"{instead}.", line=line_within(node))
    while tree:
        for part in ("order", "sort", "cluster", "distribute"):
            if tree.args.get(part):
                raise SqlError(
                    f"it ends with {part.upper()} BY, and the rows of a table have no order",
                    hint="leave it out; who reads the table sorts.",
                    line=line_within(tree.args[part]),
                )
        tree = tree.this if isinstance(tree, exp.Subquery) else None


def _refuse_subqueries_as_values(tree: Any) -> None:  # noqa: ANN401  # as above
    """Refuse a SELECT within a column: Spark's plan does not say of which columns its value is, and masks follow these."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    for select in tree.find_all(exp.Select):
        for column in select.expressions:
            if column.find(exp.Select):
                raise SqlError(
                    "a SELECT is within one of its columns",
                    hint="join it: … LEFT JOIN (SELECT …) AS other ON …, and select a column of that.",
                    line=line_within(column),
                )
    for named in tree.find_all(exp.With):
        if named.args.get("recursive"):
            raise SqlError(
                "a part of it reads itself (WITH RECURSIVE)",
                hint="write it without; how deep it goes would depend on the rows.",
            )


EXPLODES = frozenset(
    [
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
    ]
)


def _refuse_other_tables(tree: Any) -> dict[str, bool]:  # noqa: ANN401  # as above
    """Return the tables in braces, each with whether it is given another name; refuse what else could be read."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    found = {}
    for table in tree.find_all(exp.Table):
        name = table.name
        if name.startswith(MARKER) and not table.db:
            if table.args.get("version") or table.args.get("when"):
                raise SqlError(
                    "it reads a version of a table",
                    hint="a table reads the rows as they are; leave AS OF out.",
                    line=line_within(table),
                )
            found[name] = bool(table.alias)
        elif not isinstance(table.this, exp.Identifier):
            function = table.this.name or type(table.this).__name__
            raise SqlError(
                f"it reads rows of {function.lower()}(…)",
                hint="it reads tables in braces only; the items of a list are LATERAL VIEW explode(list) AS item.",
                line=line_within(table),
            )
        elif table.db or name.lower() not in _named_before(table):
            raise SqlError(
                f"it reads {table.sql(dialect=SPARK)}, which is not in braces",
                hint="a table that it reads is declared, and written in braces: "
                f"{{{name if NAME.fullmatch(name) else 'device_telemetry'}}}. Files and other databases are not read.",
                line=line_within(table),
            )
    _refuse_lateral(tree)
    return found


def _named_before(table: Any) -> set[str]:  # noqa: ANN401  # as above
    """Return the names that WITH gives where a table is read: to those behind it, and to the SELECT that has it."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    seen: set[str] = set()
    below, above = table, table.parent
    while above:
        ctes = above if isinstance(above, exp.With) else above.args.get("with_")
        for each in ctes.expressions if ctes and ctes is not below else ():
            if each is below:
                break
            seen.add(each.alias_or_name.lower())
        below, above = above, above.parent
    return seen


def _refuse_lateral(tree: Any) -> None:  # noqa: ANN401  # as above
    from sqlglot import exp  # noqa: PLC0415  # as above

    for lateral in tree.find_all(exp.Lateral):
        made = lateral.this
        if isinstance(made, exp.Subquery):
            continue
        function = (made.name if isinstance(made, exp.Anonymous) else made.sql_name()).lower()
        if not isinstance(made, exp.Explode | exp.Unnest) and function not in EXPLODES:
            raise SqlError(
                f"it reads rows of {function}(…)",
                hint=f"a LATERAL VIEW has {', '.join(sorted(EXPLODES))}.",
                line=line_within(lateral),
            )


def _columns(tree: Any) -> tuple[str, ...] | None:  # noqa: ANN401  # as above
    """Return the names of the columns of a SELECT; None where one is a star.

    Raises:
        SqlError: One has no name, or two have the same.
    """
    from sqlglot import exp  # noqa: PLC0415  # as above

    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if tree.is_star:
        return None
    names: list[str] = []
    for number, each in enumerate(tree.expressions, 1):
        if isinstance(each, exp.Aliases):
            return None
        name = each.output_name
        if not name:
            raise SqlError(
                f"its column {number} has no name: {each.sql(dialect=SPARK)}",
                hint="write … AS a_name behind it.",
                line=line_within(each),
            )
        if name.lower() in map(str.lower, names):
            raise SqlError(
                f"two of its columns are named {name}",
                hint="give one of them another name by AS.",
                line=line_within(each),
            )
        names.append(name)
    return tuple(names)


OWN_NAMES = (MARKER, "strandline_read_", "strandline_slides")


def _refuse_marks(text: str) -> None:
    """Refuse what is read in two ways: double quotes, in which a key would be one constant, hints, and names of the engine's."""
    for piece in pieces(text):
        if piece.kind is Kind.QUOTED and piece.text.startswith('"'):
            raise SqlError(
                f"{piece.text[:40]} is a text to Spark, and a column to other engines",
                hint=f"write a text as '{piece.text[1:-1][:40]}', and a column without quotes or in `backticks`.",
                line=line_of(text, piece.at),
            )
        if piece.kind is Kind.COMMENT and piece.text.startswith("/*+"):
            raise SqlError(
                "it has a hint, and how rows are joined and divided is the engine's matter",
                hint="leave it out: /*+ … */.",
                line=line_of(text, piece.at),
            )
    for word in words(text):
        if word.text.strip("`").lower().startswith(OWN_NAMES):
            raise SqlError(
                f"{word.text} is a name of the engine's own",
                hint="give it another name.",
                line=line_of(text, word.at),
            )


# A SELECT of silver, taken apart: its columns, and the conditions of its WHERE.


@dataclass(frozen=True, slots=True)
class Parts:
    """A SELECT of one table's rows, each by itself.

    Args:
        columns: The text of its columns.
        first: Where that begins in the text.
        conditions: The texts of the conditions, all of which a row meets.
        where: Where they begin.
    """

    columns: str
    first: int
    conditions: tuple[str, ...]
    where: int


AGGREGATE_HINT = "silver makes a row of each record: select columns and choose by WHERE; what counts, groups or joins is a table of gold."


def taken_apart(statement: Statement) -> Parts:
    """Return the columns and the conditions of a SELECT that makes one row of each record.

    Raises:
        SqlError: It does more.
    """
    tree, text = _of_rows(statement), statement.text
    found = _clauses(text)
    (first, *rest) = found
    from_ = next((each for each in rest if each.upper == "FROM"), None)
    where = next((each for each in rest if each.upper == "WHERE"), None)
    ends = from_.at if from_ else len(text)
    columns = text[first.end : ends]
    if _selected(f"SELECT {columns}").expressions != tree.expressions:
        raise SqlError(
            "where its columns end cannot be known",
            hint="write a name that is a word of SQL, such as from or where, in `backticks`.",
        )
    conditions = _conditions(text, where.end, tree) if where else ()
    return Parts(columns, first.end, conditions, where.end if where else 0)


def _clauses(text: str) -> list[Word]:
    """Return the words of a text in no brackets that may begin a clause: not the names of columns behind a point or AS."""
    found = [Word("", 0, 0), *(each for each in words(text) if each.depth == 0)]
    return [
        each
        for before, each in pairwise(found)
        if before.text != "." and before.upper not in {"AS", "DISTINCT"}
    ]


def _selected(text: str) -> Any:  # noqa: ANN401  # as above
    """Return a part of a text that is in no other tree; an empty SELECT where it is no part by itself."""
    from sqlglot import exp, parse_one  # noqa: PLC0415  # as above
    from sqlglot.errors import SqlglotError  # noqa: PLC0415  # as above

    try:
        return parse_one(_with_windows(text), dialect=SPARK)
    except SqlglotError:
        return exp.Select()


def with_columns(statement: Statement, fields: "tuple[str, ...]") -> Statement:
    """Return a SELECT of silver in which a star is the fields of a payload: what a record carries beside them is not meant.

    Raises:
        SqlError: A star is of something else, or of some of them.
    """
    if statement.columns is not None:
        return statement
    text, (read, *_) = statement.text, statement.reads
    listed = ", ".join(f"`{each}`" for each in fields)
    around = [Word("", 0, 0), *(each for each in words(text) if each.at < read.start)]
    stars = []
    for before, star, after in zip(around, around[1:], [*around[2:], around[0]], strict=False):
        if (
            star.text != "*"
            or star.depth
            or (before.text not in {",", "."} and before.upper != "SELECT")
        ):
            continue
        if before.text == "." or (after.upper not in {"", "FROM"} and after.text != ","):
            raise SqlError(
                "a star with a name before it, or with words behind it, is in its columns",
                hint=f"write the columns that are meant; a lone star is {', '.join(fields)}.",
                line=line_of(text, star.at),
            )
        stars.append(star)
    for star in reversed(stars):
        text = f"{text[: star.at]}{listed}{text[star.end :]}"
    made = understood(text)
    if made.columns is None:
        raise SqlError(
            "it has columns without names",
            hint="write each column as … AS a_name.",
        )
    return made


GENERATORS = EXPLODES | {"variant_explode", "variant_explode_outer", "window", "session_window"}
"""Functions that make several rows of one, or none."""


def _of_rows(statement: Statement) -> Any:  # noqa: ANN401  # as above
    """Return the tree of a SELECT that makes one row of each record."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    for word, after in pairwise(words(statement.text)):
        name = word.text.strip("`").lower()
        if name in GENERATORS and after.text == "(":
            raise SqlError(
                f"it has {name}(…), which makes several rows of a record, or none",
                hint=f"the hour of a moment is date_trunc('HOUR', at); {AGGREGATE_HINT}"
                if "window" in name
                else AGGREGATE_HINT,
                line=line_of(statement.text, word.at),
            )

    markers = tuple(f"{MARKER}{number}" for number in range(len(statement.reads)))
    tree = parsed(statement.text, markers)
    if not isinstance(tree, exp.Select) or len(statement.reads) != 1:
        raise SqlError("it is more than a SELECT of one table's rows", hint=AGGREGATE_HINT)
    known = {"kind", "expressions", "from_", "where", "hint"}
    for name, value in tree.args.items():
        if value and name not in known:
            raise SqlError(
                f"it has {name.rstrip('_').upper()}, and a table of silver judges each record by itself",
                hint=AGGREGATE_HINT,
                line=line_within(value[0] if isinstance(value, list) else value),
            )
    for node in tree.walk():
        if isinstance(node, exp.AggFunc | exp.Window | exp.Subquery | exp.Explode) or (
            isinstance(node, exp.Select) and node is not tree
        ):
            raise SqlError(
                f"it has {node.sql(dialect=SPARK)[:60]}, and a table of silver judges each record by itself",
                hint=AGGREGATE_HINT,
                line=line_within(node),
            )
    return tree


def _conditions(text: str, start: int, tree: Any) -> tuple[str, ...]:  # noqa: ANN401  # as above
    """Return the conditions of a WHERE that AND joins; the whole as one where they are other ones to a parser."""
    found = [each for each in _clauses(text) if each.at >= start]
    end = next((each.at for each in found if each.text == ";"), len(text))
    cuts, cases, betweens = [], 0, 0
    for each in found:
        cases += (each.upper == "CASE") - (each.upper == "END" and cases > 0)
        betweens += each.upper == "BETWEEN" and not cases
        if each.upper == "AND" and not cases:
            if betweens:
                betweens -= 1
            else:
                cuts.append(each)
    begins = [start, *(each.end for each in cuts)]
    ends = [*(each.at for each in cuts), end]
    parts = [text[a:b] for a, b in zip(begins, ends, strict=True)]
    read = [_selected(f"SELECT 1 WHERE {each}").args.get("where") for each in parts]
    is_chain = [each and each.this for each in read] == _all_of(tree.args["where"].this)
    return tuple(map(normal, parts)) if is_chain else (normal(text[start:end]),)


def _all_of(node: Any) -> list[Any]:  # noqa: ANN401  # as above
    """Return the conditions that AND joins."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    if not isinstance(node, exp.And):
        return [node]
    return [*_all_of(node.this), *_all_of(node.expression)]
