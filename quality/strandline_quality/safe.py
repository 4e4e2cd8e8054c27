"""Finds what in a predicate could throw on a row, or change its result tomorrow; in the text, before Spark starts.

A rule is evaluated on rows that are not checked yet. In ANSI mode a cast, a division or a sum that overflows throws,
and a predicate that throws ends the stream at that row, for ever. Each such operation has a sibling that returns NULL
instead, which a rule counts as broken. And a function of the time or of chance gives another verdict in a backfill
than it gave in the stream.

The text is cut into words and marks, not parsed: Spark reports what it cannot read, at the first batch. sqlglot (30.30)
would parse it, but it removes the very difference that is looked for: it reads Spark's ``a::int``, which throws, as a
TRY_CAST, and ``parse_json(a)`` as ``a``.

Types are not known here: a text compared with a number is a hidden cast. tests/quality/test_agreement.py finds those:
it evaluates each rule of every table on hostile rows of the table's own types.
"""

import re
from collections.abc import Iterator

WORDS = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:[^`]|``)*`|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\w*|\w+|::|->|\|\||[^\s\w]"""
)
TYPES = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "boolean",
    "date",
    "timestamp",
    "binary",
]
INSTEAD = {
    "::": "try_cast(… AS …)",
    "/": "try_divide(…, …)",
    "%": "try_mod(…, …)",
    "+": "try_add(…, …)",
    "-": "try_subtract(…, …)",
    "*": "try_multiply(…, …)",
    "[": "get(…, …) or try_element_at(…, …)",
}
CALLS = {
    "cast": "try_cast(… AS …)",
    "mod": "try_mod(…, …)",
    "pmod": "try_mod(…, …)",
    "div": "try_divide(…, …)",
    "element_at": "try_element_at(…, …)",
    "elt": "try_element_at(…, …)",
    "to_date": "try_to_date(…)",
    "to_timestamp": "try_to_timestamp(…)",
    "to_number": "try_to_number(…)",
    "to_binary": "try_to_binary(…)",
    "make_date": "make_date of columns that were checked, in the table's function",
    "make_timestamp": "try_make_timestamp(…)",
    "make_interval": "try_make_interval(…)",
    "parse_url": "try_parse_url(…)",
    "parse_json": "try_parse_json(…)",
    "variant_get": "try_variant_get(…)",
    "raise_error": "a predicate that is false",
    "assert_true": "a predicate that is false",
    "abs": "a comparison with both bounds",
    "negative": "a comparison with both bounds",
    "round": "a comparison with bounds",
    "bround": "a comparison with bounds",
    "sequence": "a predicate without it",
    "str_to_map": "a predicate without it",
    "regexp_extract": "linear_match(…, …)",
    "regexp_extract_all": "linear_match(…, …)",
    "timestamp_seconds": "the moment as a column of the table's function",
    "timestamp_millis": "the moment as a column of the table's function",
    "timestamp_micros": "the moment as a column of the table's function",
    "to_unix_timestamp": "a comparison of moments",
    "to_utc_timestamp": "the moment as a column of the table's function",
    "from_utc_timestamp": "the moment as a column of the table's function",
    **{name: f"try_cast(… AS {name.upper()})" for name in TYPES},
}
CHANGING = frozenset(
    [
        "curdate",
        "current_date",
        "current_timestamp",
        "current_user",
        "input_file_name",
        "localtimestamp",
        "monotonically_increasing_id",
        "now",
        "rand",
        "randn",
        "random",
        "session_user",
        "shuffle",
        "spark_partition_id",
        "unix_timestamp",
        "uuid",
    ]
)
BEFORE_A_NUMBER = frozenset(
    ["and", "or", "not", "in", "between", "like", "is", "when", "then", "else", "from", "case"]
)
TODAY = frozenset(["'now'", "'today'", "'yesterday'", "'tomorrow'"])


def hazards(predicate: str) -> list[str]:
    """Return the hazards of a predicate, each with what to write instead; none for a good one."""
    return list(dict.fromkeys(_hazards(predicate)))


def _hazards(predicate: str) -> Iterator[str]:
    words = [word.lower() for word in WORDS.findall(predicate)]
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    for before, word, after in around:
        is_changing = word in CHANGING and before != "."
        if is_changing or (word in TODAY and before in {"date", "timestamp"}):
            yield f"{word} has another value tomorrow; compare with a column such as _arrived_at"
        elif (word in CALLS and after == "(") or word == "div":
            yield f"{word} can throw on a row; write {CALLS[word]}"
        elif word in INSTEAD and not (word in "+-" and _is_sign(before, after)):
            yield f"{word} can throw on a row; write {INSTEAD[word]}"


def _is_sign(before: str, after: str) -> bool:
    """Return whether a mark is the sign of the number that follows; the smallest of a type has no opposite."""
    is_value = bool(re.fullmatch(r"[\w`'\"].*|[)\]]", before)) and before not in BEFORE_A_NUMBER
    return after[:1].isdigit() and not is_value
