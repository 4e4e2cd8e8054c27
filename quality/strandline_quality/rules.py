"""Rules of rows, each declared once, as SQL, and used in four places; and what in one could throw, found before Spark starts.

The verdict column of a judged table, the counters of each batch, Great Expectations' suite (quality/strandline_quality/expectations.py)
and Dagster's checks all come from these values. A rule is text rather than a ``Column`` because a ``Column`` needs a
live JVM, and the catalog must be readable without one.

Why NULL counts as broken: SQL's third truth value would admit a row that was not judged.
A rule that tolerates an absent value declares ``null_ok``.

``on_fail`` decides what happens to a row, ``max_failed`` and ``severity`` what happens to the batch: one bad row
is no reason to hold back the good ones beside it, an hour of bad rows is.

A rule is evaluated on rows that are not checked yet. In ANSI mode a cast, a division or a sum that overflows throws,
and a predicate that throws ends the stream at that row, for ever. Each such operation has a sibling that returns NULL
instead, which a rule counts as broken. And a function of the time or of chance gives another verdict in a backfill
than it gave in the stream. Such hazards are found in the text.

The text is cut into words and marks, not parsed: Spark reports what it cannot read, at the first batch. sqlglot (30.30)
would parse it, but it removes the very difference that is looked for: it reads Spark's ``a::int``, which throws, as a
TRY_CAST, and ``parse_json(a)`` as ``a``. Types are not known here: a text compared with a number is a hidden cast.
tests/quality/test_agreement.py finds those: it evaluates each rule of every table on hostile rows of the table's own types.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict, Unpack

from pyspark.sql import Column
from pyspark.sql import functions as F

from strandline_quality.linear import Flavour, RefusedError, linear

FEW = 10
"""The number of rows that a quarantine rule may always hold back: half of a batch of two proves nothing."""


class OnFail(StrEnum):
    """What happens to a row that breaks a rule."""

    WARN = "warn"
    """It is believed nevertheless, and counted."""
    QUARANTINE = "quarantine"
    """It is held back."""
    FAIL = "fail"
    """It is held back, and so is every row of its batch until a person has decided."""


class Severity(StrEnum):
    """What happens to a batch in which too many rows break a rule."""

    CRITICAL = "critical"
    """It is not published; the table's gate shuts."""
    WARNING = "warning"
    """It is published, and the failure is shown."""
    INFO = "info"
    """It is published, and the failure is recorded."""


class Options(TypedDict, total=False):
    """The options of every rule beside its predicate; see ``Rule``."""

    null_ok: bool
    on_fail: OnFail
    severity: Severity
    max_failed: float
    owner: str
    about: str
    ok: Mapping[str, object]
    bad: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A predicate that every believed row satisfies.

    Args:
        name: The reason that the quarantine records for a row that breaks it.
        holds: A SQL predicate over the table's columns.
        null_ok: Whether NULL passes.
        on_fail: What happens to a row that breaks it.
        severity: What happens to a batch in which too many rows break it; critical where ``on_fail`` is ``fail``, or
            rows are held back and ``max_failed`` is given, a warning otherwise.
        max_failed: The share of a batch's rows that may break it. Without it, no share is too large for a rule that
            holds rows back, and any share is for a rule that warns or fails. For a rule that holds rows back, ten rows
            may always break it.
        owner: The team that knows about it; the table's owner when empty.
        about: The purpose, in a sentence.
        ok: Columns of a row that satisfies it, as a test; a text is cast to the column's type.
        bad: Columns of a row that breaks it.
        runs_as: What Spark is asked instead of ``holds``, where that says the same in a way that a text cannot make expensive.
        refused: Why there is no such way; a table with the rule does not run.
    """

    name: str
    holds: str
    null_ok: bool = False
    on_fail: OnFail = OnFail.QUARANTINE
    severity: Severity | None = None
    max_failed: float | None = None
    owner: str = ""
    about: str = ""
    ok: Mapping[str, object] | None = field(default=None, hash=False)
    bad: Mapping[str, object] | None = field(default=None, hash=False)
    runs_as: str = ""
    refused: str = field(default="", repr=False)

    @property
    def asked(self) -> str:
        """Return the predicate as Spark is asked; it is no part of the fingerprint, as it changes no answer."""
        if (
            self.refused
        ):  # its table does not run; whatever asks all the same is not searched by Java's engine
            return f"CAST(raise_error({_literal(f'{self.name}: {self.refused}')}) AS BOOLEAN)"
        return f"coalesce(({self.runs_as or self.holds}), {str(self.null_ok).lower()})"

    @property
    def predicate(self) -> str:
        """Return the predicate with NULL replaced by ``null_ok``."""
        return f"coalesce(({self.holds}), {str(self.null_ok).lower()})"

    @property
    def weight(self) -> Severity:
        """Return what happens to a batch that breaks it."""
        if self.severity is not None:
            return self.severity
        decides = self.on_fail is OnFail.FAIL or self.max_failed is not None
        is_held = self.on_fail is not OnFail.WARN
        return Severity.CRITICAL if decides and is_held else Severity.WARNING

    @property
    def allowed(self) -> float:
        """Return the share of a batch's rows that may break it."""
        if self.max_failed is not None:
            return self.max_failed
        return 1.0 if self.on_fail is OnFail.QUARANTINE else 0.0

    @property
    def few(self) -> int:
        """Return the number of rows that may break it whatever their share."""
        return FEW if self.on_fail is OnFail.QUARANTINE else 0


def required(*columns: str, **options: Unpack[Options]) -> tuple[Rule, ...]:
    """Demand a value in each column; the reason is ``missing:<column>``."""
    return tuple(not_null(name, **options) for name in columns)


def not_null(column: str, **options: Unpack[Options]) -> Rule:
    """Demand a value; the reason is ``missing:<column>``."""
    with_example: Options = {"bad": {column: None}, **options}
    return Rule(name=f"missing:{column}", holds=f"`{column}` IS NOT NULL", **with_example)


def between(column: str, low: float, high: float, **options: Unpack[Options]) -> Rule:
    """Demand a value from ``low`` to ``high``, both included."""
    with_example: Options = {"ok": {column: str(low)}, "bad": {column: str(high + 1)}, **options}
    return Rule(
        name=f"out_of_range:{column}",
        holds=f"`{column}` BETWEEN {low} AND {high}",
        **with_example,
    )


def one_of(column: str, values: Sequence[str], **options: Unpack[Options]) -> Rule:
    """Demand one of the listed texts."""
    listed = ", ".join(_literal(value) for value in values)
    with_example: Options = {
        "ok": {column: values[0]},
        "bad": {column: "no " + " nor ".join(values)},
        **options,
    }
    return Rule(name=f"not_listed:{column}", holds=f"`{column}` IN ({listed})", **with_example)


def matches(column: str, pattern: str, **options: Unpack[Options]) -> Rule:
    """Demand a text in which a regular expression is found; anchor it to demand the whole text.

    It is written as for Java, and run by RE2 (quality/strandline_quality/linear.py), so that no text makes it expensive. Where RE2 has no word
    for what it asks, its table does not run, and the others do: an earlier version may have run it for years.
    """
    runs_as = refused = ""
    try:
        runs_as = (
            f"linear_match(`{column}`, {_literal(linear(pattern, flavour=Flavour.JAVA).text)})"
        )
    except RefusedError as error:
        refused = f"{pattern!r}: {error}"
    return Rule(
        name=f"no_match:{column}",
        # As Java was asked before: certificates and the histories of rules know the rule by this text.
        holds=f"`{column}` RLIKE {_literal(pattern)}",
        runs_as=runs_as,
        refused=refused,
        **options,
    )


def no_unknown_fields(**options: Unpack[Options]) -> Rule:
    """Count rows with undeclared fields, in a table that keeps them (jobs/strandline/core/parse.py)."""
    usual: Options = {
        "on_fail": OnFail.WARN,
        "severity": Severity.INFO,
        "ok": {"_rescued": None},
        "bad": {"_rescued": '{"x": "1"}'},
    }
    usual.update(options)
    return Rule(name="unknown_fields", holds="`_rescued` IS NULL", **usual)


def fingerprint(rules: Sequence[Rule]) -> str:
    """Return a hash that differs for any set of rules that judges differently."""
    values = [
        (r.name, r.predicate, r.on_fail.value, r.weight.value, r.allowed, r.few) for r in rules
    ]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:12]


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def judging(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that decide whether a row is believed."""
    return tuple(rule for rule in rules if rule.on_fail is not OnFail.WARN)


def warning(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that a believed row may break."""
    return tuple(rule for rule in rules if rule.on_fail is OnFail.WARN)


def broken(
    rules: Sequence[Rule], *others: Column, asked: Callable[[Rule], str] = lambda rule: rule.asked
) -> Column:
    """Return the names of the rules that a row breaks, in the order of their declaration.

    Args:
        rules: The rules.
        others: Further names, or NULL, that come after them.
        asked: How a rule is asked, where its columns are not those of the row.
    """
    names = [*(F.when(~F.expr(asked(rule)), F.lit(rule.name)) for rule in rules), *others]
    if not names:
        return F.array().cast("array<string>")
    # Not `array_compact`: Spark interprets its function for every row, and compiles nothing of the projection around it.
    return F.array_remove(F.array(*(F.coalesce(name, F.lit("")) for name in names)), "")


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
CALLED = frozenset(
    [
        "current_catalog",
        "current_database",
        "current_schema",
        "current_time",
        "current_timezone",
        "localtime",
        "randstr",
        "uniform",
        "user",
        "version",
    ]
)
"""The same, of names that many a column has: where they are called."""
BARE = frozenset(
    ["current_date", "current_timestamp", "current_user", "localtimestamp", "session_user"]
)
"""Functions to Spark where no column has their name, in backticks too; ``user`` is not among them, for many a table has such a column."""
TODAY = re.compile(r"""(['"])\s*(?:now|today|yesterday|tomorrow)(?:\s.*)?\1""", re.DOTALL)
"""A text that is another time each day, where a time is made of it: by its type, or because it is compared with one. What is only
equal to it may be a text, as a word of an enum is."""
MAKING = frozenset(["date", "timestamp", "timestamp_ntz", "timestamp_ltz"])


def hazards(predicate: str) -> list[str]:
    """Return the hazards of a predicate, each with what to write instead; none for a good one."""
    return list(dict.fromkeys(_hazards(predicate)))


def _hazards(predicate: str) -> Iterator[str]:
    words = ["", "", *(word.lower() for word in WORDS.findall(predicate)), "", ""]
    for number, word in enumerate(words[2:-2], 2):
        around = words[number - 2 : number + 3]
        before, after = around[1], around[3]
        if _is_changing(word, before, after) or (TODAY.fullmatch(word) and _is_time(around)):
            yield f"{word} has another value tomorrow; compare with a column such as _arrived_at"
        elif (word in CALLS and after == "(") or word == "div":
            yield f"{word} can throw on a row; write {CALLS[word]}"
        elif word in INSTEAD and not (word in "+-" and _is_sign(before, after)):
            yield f"{word} can throw on a row; write {INSTEAD[word]}"


def _is_changing(word: str, before: str, after: str) -> bool:
    """Return whether a word is a function of the time, of chance or of a place; behind a point a name that is not called is a column's."""
    bare = word.strip("`")
    if after == "(":
        return bare in CHANGING | CALLED
    return before != "." and (word in CHANGING or (bare in BARE and word != bare))


def _is_time(around: Sequence[str]) -> bool:
    """Return whether a time is made of a text, by the two words before it and the two behind."""
    above, before, _, after, next_ = around
    is_cast = after == "as" and next_ in MAKING
    is_made = before in MAKING or (before == "(" and above.removeprefix("try_to_") in MAKING)
    marks = {above + before, after + next_} & {"<>", "><"}
    is_ordered = not marks and bool(
        {before, after, above + before} & {"<", ">", "<=", ">=", "between"}
    )
    return is_cast or is_made or is_ordered


def _is_sign(before: str, after: str) -> bool:
    """Return whether a mark is the sign of the number that follows; the smallest of a type has no opposite."""
    is_value = bool(re.fullmatch(r"[\w`'\"].*|[)\]]", before)) and before not in BEFORE_A_NUMBER
    return after[:1].isdigit() and not is_value
