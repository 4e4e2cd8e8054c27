"""How a text of SQL is cut: into code, what is in quotes, and comments; and into words, with the brackets around each.

What in a text has another value tomorrow is found by its words too, and what depends on the order of rows by its tree.

As Spark cuts it: two dashes within quotes are no comment, and braces within quotes name no table.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

SPARK = "spark"


class SqlError(Exception):
    """A text is not what a table's function may be; who has the text knows its file."""

    def __init__(self, message: str, *, hint: str, line: int = 1) -> None:
        """Keep the sentence, the hint and the line within the text; 0 where its declaration is wrong."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line


class Kind(Enum):
    """What a piece of a text is."""

    CODE = "code"
    QUOTED = "quoted"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text: code, a text or a name in quotes, or a comment."""

    kind: Kind
    text: str
    at: int


OPENS = re.compile(r"--|/\*|(?<!\w)[rR](?=['\"])|['\"`]")
WORDS = re.compile(r"\w+|[^\s\w]")


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text in their order, as Spark cuts it.

    Raises:
        SqlError: A quote or a comment has no end.
    """
    at = 0
    while found := OPENS.search(text, at):
        if found.start() > at:
            yield Piece(Kind.CODE, text[at : found.start()], at)
        kind, at = _closed(text, found)
        yield Piece(kind, text[found.start() : at], found.start())
    if at < len(text):
        yield Piece(Kind.CODE, text[at:], at)


def _closed(text: str, opened: "re.Match[str]") -> tuple[Kind, int]:
    """Return what begins at a mark, and where it ends."""
    mark, start = opened[0], opened.start()
    if mark == "--":
        end = text.find("\n", start)
        return Kind.COMMENT, len(text) if end < 0 else end
    end = _comment_end(text, start) if mark == "/*" else _quote_end(text, opened)
    if end < 0:
        what = "a comment" if mark == "/*" else f"a text that begins with {mark.strip('rR') or 'r'}"
        raise SqlError(
            f"{what} has no end", hint="close it, or remove its begin.", line=line_of(text, start)
        )
    return (Kind.COMMENT if mark == "/*" else Kind.QUOTED), end


def _comment_end(text: str, start: int) -> int:
    open_, at = 0, start
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        open_ += 1 if found[0] == "/*" else -1
        at = found.end()
        if not open_:
            return at
    return -1


def _quote_end(text: str, opened: "re.Match[str]") -> int:
    is_raw = opened[0] in {"r", "R"}
    first = opened.end() if is_raw else opened.start()
    quote, at = text[first], first + 1
    while at < len(text):
        if text[at] == "\\" and not is_raw and quote != "`":
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    return -1


def line_of(text: str, at: int) -> int:
    """Return the number of the line of a place in a text."""
    return text.count("\n", 0, at) + 1


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a mark or a piece in quotes, with its place and the number of brackets around it."""

    text: str
    at: int
    depth: int
    is_code: bool = True

    @property
    def end(self) -> int:
        """Return where it ends."""
        return self.at + len(self.text)

    @property
    def upper(self) -> str:
        """Return it as keywords are compared; a quoted one is none."""
        return self.text.upper() if self.is_code else ""


def words(text: str) -> Iterator[Word]:
    """Yield the words of a text without its comments."""
    depth = 0
    for piece in pieces(text):
        if piece.kind is Kind.QUOTED:
            yield Word(piece.text, piece.at, depth, is_code=False)
        elif piece.kind is Kind.CODE:
            for found in WORDS.finditer(piece.text):
                depth -= found[0] in ")]"
                yield Word(found[0], piece.at + found.start(), depth)
                depth += found[0] in "(["


def normal(text: str) -> str:
    r"""Return a text without comments, and with one blank where it has any number of them: what it says, not how it looks.

    >>> normal("SELECT a,  -- the first\\n  '  ' AS b")
    "SELECT a, '  ' AS b"
    """
    said = "".join(map(_said, pieces(text)))
    return re.sub(r"^[ ;]+|[ ;]+$", "", _single_blanks(said))


def _said(piece: Piece) -> str:
    match piece.kind:
        case Kind.COMMENT:
            return " "
        case Kind.QUOTED:
            return piece.text
        case Kind.CODE:
            return re.sub(r"\s+", " ", piece.text)


def _single_blanks(text: str) -> str:
    """Return a text in which two pieces of code that a comment divided are one blank apart."""
    return "".join(
        each.text if each.kind is Kind.QUOTED else re.sub(r" {2,}", " ", each.text)
        for each in pieces(text)
    )


# What has another value tomorrow, or elsewhere.


CHANCE = frozenset(
    [
        "rand",
        "randn",
        "random",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
    ]
)
CLOCK = frozenset(
    [
        "now",
        "curdate",
        "current_date",
        "current_timestamp",
        "current_time",
        "localtimestamp",
        "localtime",
    ]
)
PLACE = frozenset(
    [
        "current_user",
        "session_user",
        "user",
        "current_catalog",
        "current_database",
        "current_schema",
        "current_timezone",
        "version",
    ]
)
PROGRAM = frozenset(["reflect", "java_method", "try_reflect"])
BARE = frozenset(
    [
        "current_date",
        "current_timestamp",
        "current_time",
        "localtimestamp",
        "current_user",
        "session_user",
    ]
)
"""Those that need no brackets behind their name, where no column has it; ``user`` is the name of many a column, so Spark is asked of it."""
WITHOUT_ARGUMENT = frozenset(["unix_timestamp", "to_unix_timestamp"])
"""Read the clock where they have no argument."""
DAY_WORDS = frozenset(["now", "today", "yesterday", "tomorrow"])
"""How a text begins that is another time each day, where Spark makes a time of it; a zone may follow."""
TYPES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
MAKING = TYPES | {f"{way}TO_{kind}" for way in ("", "TRY_") for kind in TYPES}
"""Functions that make a time of a text."""


def day_words(text: str) -> list[str]:
    """Return the texts in quotes that may be another time each day.

    >>> day_words("at > ' Today' AND name <> 'nowhere'")
    ["' Today'"]
    """
    return [
        each.text for each in pieces(text) if each.kind is Kind.QUOTED and is_day_word(each.text)
    ]


def may_be_time(condition: str) -> bool:
    """Return whether a condition has such a text; what cannot be cut into words Spark refuses."""
    try:
        return bool(day_words(condition))
    except SqlError:
        return False


def bare_words(text: str) -> list[str]:
    """Return the words that are functions of Spark's where no column has their name."""
    found = (each.text for each in words(text))
    return [each for each in found if each.strip("`").lower() in {*BARE, "user"}]


def is_day_word(quoted: str) -> bool:
    """Return whether a text in quotes begins as such a time does."""
    first = quoted.lstrip("rR").strip("'\"").split()[:1]
    return quoted[-1] in "'\"" and bool(first) and first[0].lower() in DAY_WORDS


def refuse_calls(text: str) -> None:
    """Refuse functions of the clock, of chance, of where Spark runs, and those that run a program.

    What has no brackets and what is compared with a time by its text alone, only Spark knows (jobs/strandline/sql_function.py).
    """
    none = Word("", 0, 0)
    found = [none, none, *words(text), none, none, none]
    for number in range(2, len(found) - 3):
        around = found[number - 2 : number + 4]
        _refuse_day(around, text)
        _refuse_call(around, text)


def _refuse_day(around: Sequence[Word], text: str) -> None:
    """Refuse a text of which a time is made by its type, a cast or a function; two words are before it, three behind."""
    above, before, word, after, next_, last = around
    if not word.is_code and is_day_word(word.text):
        is_typed = before.upper in TYPES or (before.text == "(" and above.upper in MAKING)
        is_cast = after.upper == "AS" and next_.upper in TYPES
        if is_typed or is_cast or (after.text == next_.text == ":" and last.upper in TYPES):
            raise _changing(f"{before.text.strip('(')} {word.text}".strip(), CLOCK, text, word)


def _refuse_call(around: Sequence[Word], text: str) -> None:
    _, before, word, after, next_, _ = around
    name = word.text.strip("`").lower()
    is_call = after.text == "("
    if not (word.is_code or word.text[0] == "`") or (before.text == "." and not is_call):
        return
    if before.upper == "AS" or not (is_call or name in BARE):
        return
    for kind in (CLOCK, CHANCE, PLACE, PROGRAM):
        if name in kind:
            raise _changing(f"{name}()", kind, text, word)
    if is_call and next_.text == ")" and name in WITHOUT_ARGUMENT:
        raise _changing(f"{name}()", CLOCK, text, word)


def _changing(what: str, kind: frozenset[str], text: str, word: Word) -> SqlError:
    sentence, hint = {
        CLOCK: (
            "reads the clock, so a backfill would give other rows than the stream gave",
            "time is given: use a column such as event_at, or the end of the window.",
        ),
        CHANCE: (
            "has another value each time, so no two computations would give the same rows",
            "compute it from columns, such as sha2(event_id, 256).",
        ),
        PLACE: (
            "says where and for whom Spark runs, which is no part of the rows",
            "write the value itself.",
        ),
        PROGRAM: ("runs a program", "compute it by SQL, or write the table in Python."),
    }[kind]
    return SqlError(f"{what} {sentence}", hint=hint, line=line_of(text, word.at))


# What depends on the order in which rows come.


def line_within(node: Any) -> int:  # noqa: ANN401  # a tree of sqlglot
    """Return the line of a part of a tree, as far as its names say."""
    lines = [each.meta["line"] for each in node.walk() if "line" in each.meta]
    return min(lines, default=1)


FIRSTS = frozenset(["First", "Last", "AnyValue", "FirstValue", "LastValue", "NthValue"])
PLACED = frozenset(
    ["RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "Ntile", "Lag", "Lead"]
)
GATHERED = frozenset(["ArrayAgg", "ArrayUniqueAgg"])
KEEPS_ORDER = frozenset(
    [
        "ArrayCompact",
        "ArrayConcat",
        "ArrayDistinct",
        "ArrayExcept",
        "ArrayFilter",
        "ArrayIntersect",
        "ArrayRemove",
        "Coalesce",
        "Filter",
        "Flatten",
        "IgnoreNulls",
        "Paren",
        "RespectNulls",
        "Transform",
    ]
)
"""What has a list for its argument, and leaves it in whichever order that has."""
NEEDS_NO_ORDER = frozenset(
    ["ArraySort", "SortArray", "ArraySize", "ArrayContains", "ArrayMax", "ArrayMin", "Exists"]
)
"""What sorts a list, or asks nothing of its order."""


def refuse_chance_of_order(tree: Any) -> None:  # noqa: ANN401  # a tree of sqlglot
    """Refuse functions of the order in which rows come, which is another one in a stream, a backfill and next year."""
    for node in tree.walk():
        kind = type(node).__name__
        if kind in FIRSTS | PLACED and not _is_ordered(node):
            hint = "write OVER (… ORDER BY …) with columns that no two rows share, or min_by(value, event_at)."
        elif kind in GATHERED and not (_is_sorted(node) or _is_ordered(node)):
            hint = "sort the list where it is made: array_sort(collect_list(…))."
        elif kind == "GroupConcat" and not any(
            type(each).__name__ == "Order" for each in (*node.walk(), node.parent)
        ):
            hint = "write listagg(…) WITHIN GROUP (ORDER BY …)."
        elif kind == "Mode" and not node.args.get("deterministic"):
            hint = "write mode(…, true), which takes the least of those that are equally many."
        else:
            continue
        raise SqlError(
            f"{node.sql(dialect=SPARK)[:60]} depends on the order in which rows come, which is chance",
            hint=hint,
            line=line_within(node),
        )


def _is_ordered(node: Any) -> bool:  # noqa: ANN401  # a tree of sqlglot
    """Return whether a function is asked over a window of rows whose order a column gives."""
    from sqlglot import exp  # noqa: PLC0415  # as above

    over = node.parent
    while type(over).__name__ in KEEPS_ORDER:
        over = over.parent
    if not isinstance(over, exp.Window):
        return False
    select = over.find_ancestor(exp.Select)
    named = [
        each
        for each in (select.args.get("windows") or () if select else ())
        if over.alias and each.name.lower() == over.alias.lower()
    ]
    orders = [each.args.get("order") for each in (over, *named)]
    return any(each and each.find(exp.Column) for each in orders)


def _is_sorted(node: Any) -> bool:  # noqa: ANN401  # a tree of sqlglot
    """Return whether the order of a list is of no account where it is used."""
    above = node.parent
    while type(above).__name__ in KEEPS_ORDER:
        above = above.parent
    return type(above).__name__ in NEEDS_NO_ORDER or above.name.lower() == "cardinality"
