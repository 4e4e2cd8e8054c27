r"""An expression means what it meant, to Python and to the JVM alike, and no text makes it expensive."""

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.condition import Matches, clauses
from strandline.alerting.sigma import read_folder
from strandline_quality.linear import LONGEST, Flavour, RefusedError, linear
from strandline_quality.rules import broken, matches
from tests.rules.cases import CASES
from tests.support.proofs import Times


@pytest.mark.parametrize(
    "text",
    [
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#x)", "a(?i)b", "(?x)a", "(?U)a", "(*UTF8)a",
        r"(a)\1", r"\k<a>", r"\C", r"\v", r"\h", r"\R", r"\X", r"\G", r"\12", r"\x{110000}",
        "a++", "a*+", "a??+", "a{2}{3}", "a{3,2}", "a{1,9999}", "*a", "(?:+)", "a**", "((a{1000}){1000}){1000}",
        "(a", "a)", "[a", "[", "[]", "[^]", "[b-a]", r"[\d-z]", "a\\", "(" * 100 + ")" * 100, "a" * (LONGEST + 1), "\ud800",
    ],
)  # fmt: skip
@pytest.mark.parametrize("flavour", Flavour)
def test_what_is_refused(text: str, flavour: Flavour) -> None:
    with pytest.raises(RefusedError, match=r"^\D"):
        linear(text, "", flavour)


@pytest.mark.parametrize("text", [r"\p{L}", r"\P{L}", r"\pL", r"\Z", "[[:colour:]]", r"\u0041"])
def test_what_sigma_does_not_have(text: str) -> None:
    with pytest.raises(RefusedError):
        linear(text)


@pytest.mark.parametrize("text", ["[a[bc]]", "[a&&b]", r"\v", r"\cA", r"\0101"])
def test_what_only_java_has(text: str) -> None:
    with pytest.raises(RefusedError):
        linear(text, "", Flavour.JAVA)


@pytest.mark.parametrize(
    ("expression", "flags", "text"),
    [
        (r"\snet\suse\b", "", "net"),
        (r"-opt5\s+[a-z]{3}", "i", "-opt5"),
        ("(?i)xABCd", "", "xabcd"),
        ("a(bcdef)?xyz", "", "xyz"),
        ("abc|def", "", None),
        ("(abcd)*", "", None),
        ("abcd*", "", "abc"),
        ("ab", "", None),
        ("mimikatz", "i", "atz"),
        ("mimikatz", "", "mimikatz"),
        ("a.b.c", "", None),
    ],
)
def test_the_text_that_is_looked_for_first(expression: str, flags: str, text: str | None) -> None:
    assert linear(expression, flags).literal == text


LETTERS = "aAbBcCdDxXyYsSiIkK\u017f\u0131\u0130\u212a"
PIECES = [
    *("abc", "x", "SI", "k", "(ab)?", "(c|d)", "[xy]", ".", "bcd*", "a{1}", "K", r"\.", r"\d", r"\W", r"\s", "[^a]"),
    *("[a-c0-9]", "(?:ab)+", "b{1,2}", "a*?", r"\b", "é", r"\x41", r"[\w.-]", r"\S", "$", "^"),
]  # fmt: skip


@pytest.mark.whole
@settings(deadline=None)  # Python's engine may have to start
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join),
    st.sampled_from(["", "i"]),
    st.text(LETTERS, max_size=10),
)
def test_what_is_found_contains_the_text_that_is_looked_for_first(
    expression: str, flags: str, text: str
) -> None:
    """Also letters whose other case is a third letter."""
    read = linear(expression, flags)

    assert (
        not read.found(text)
        or read.literal is None
        or read.literal in (text.lower() if flags else text)
    )


@pytest.mark.whole
@settings(deadline=None)  # Python's engine may have to start
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
    st.text("ab1. x-\nAcdé", max_size=8),
)
def test_it_finds_what_pythons_own_engine_finds(expression: str, text: str) -> None:
    """But for what is behind the end of the text (infra/docs/linear.md)."""
    inside = expression.removesuffix("$")
    if "$" in inside or (inside != expression and inside.endswith("^")):
        return

    meant = re.search(expression, text, re.ASCII)

    assert linear(expression).found(text) == (meant is not None)


ALPHABET = "abcxyz019 .-_/\\\n\r\tABCXYZéÄß\u017f\u212a\u0131\u0130\u0661\u0085\u2028😀\x00\x0b"


def _texts(source: random.Random, number: int) -> list[str]:
    return ["".join(source.choices(ALPHABET, k=source.randrange(12))) for _ in range(number)]


def _random_pattern(source: random.Random) -> str:
    return "".join(source.choices(PIECES, k=source.randrange(1, 5)))


def _compared(
    spark: SparkSession, asked: list[tuple[str, str, Flavour]], texts: list[str]
) -> list[str]:
    """Return where the three engines differ: Java's own, re2j and google-re2."""
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    found = []
    for pattern, flags, flavour in asked:
        read = linear(pattern, flags, flavour)
        java = f"(?{'d' if flavour is Flavour.SIGMA else ''}{flags}{'u' if 'i' in flags else ''})"
        ours = F.call_function("linear_match", "text", F.lit(read.text)).alias("ours")
        was = F.col("text").rlike((java if java != "(?)" else "") + pattern).alias("was")
        for text, now, before in rows.select("text", ours, was).collect():
            if now != read.found(text):
                found.append(f"engines {pattern!r} {text!r} {now}")
            if now != before:
                found.append(f"before {pattern!r} {flags} {text!r} {before}")
    return found


def _decided(line: str) -> bool:
    r"""Whether a difference is one of those that infra/docs/linear.md has: \b and letters, dotless i and dotted I, what is behind the end."""
    return line.startswith("before ") and (
        r"\\b" in line
        or "\u0131" in line
        or "\u0130" in line
        or "$" in line.split("' ", maxsplit=1)[0].rstrip("'")[:-1]
    )


@pytest.mark.whole
@pytest.mark.prove
def test_the_engines_agree_and_each_difference_to_before_is_decided(
    spark: SparkSession, times: Times
) -> None:
    """A million searches in the long form."""
    source = random.Random(37)  # noqa: S311  # no secret
    rules = [*(case.rule() for case in CASES), *read_folder(rules_folder()).rules]
    own = {(c.pattern, c.flags) for r in rules for c in clauses(r.when) if isinstance(c, Matches)}
    others = ("[[", "[]", "{,")  # Java reads these otherwise, and never got them as they are
    asked = [
        (pattern, flags, Flavour.SIGMA)
        for pattern, flags in sorted(own)
        if not any(other in pattern for other in others)
    ]
    old = [(_random_pattern(source), "", Flavour.JAVA) for _ in range(30)]
    patterns = len(asked) + len(old)
    texts = _texts(source, times(500, 1_000_000 // patterns))

    different = _compared(spark, [*asked, *old], texts)

    print(f"{len(texts) * patterns:,} searches, {len(different):,} differences to before")  # noqa: T201  # for the proof
    assert [line for line in different if not _decided(line)] == []


@pytest.mark.whole
def test_a_rule_of_a_table_outlives_a_text_of_a_megabyte(spark: SparkSession) -> None:
    """Java's engine overflows the stack of the task at 8,007 characters of this text."""
    rule = matches("name", "^(a|b)*$")
    long = "ab" * 500_000
    rows = spark.createDataFrame([(long,), ("abc",), (None,), ("ab\n",)], "name string")
    began = time.monotonic()

    found = [row[0] for row in rows.select(broken([rule])).collect()]

    assert found == [[], ["no_match:name"], ["no_match:name"], []]
    assert time.monotonic() - began < 30


def test_a_chain_of_optionals_is_linear(spark: SparkSession) -> None:
    """28 letters took Java's engine 42 s."""
    pattern = "^" + "(a?)" * 28 + "(a?b)*" + "c$"
    began = time.monotonic()

    found = spark.range(1).select(
        F.call_function("linear_match", F.lit("a" * 28), F.lit(linear(pattern).text))
    )

    assert found.collect() == [(False,)]
    assert not linear(pattern).found("a" * 28)
    assert time.monotonic() - began < 20


def test_the_name_by_which_certificates_know_a_rule_is_that_of_before() -> None:
    rule = matches("name", r"^\w+$")

    assert rule.predicate == r"coalesce((`name` RLIKE '^\\w+$'), false)"
    assert "linear_match" in rule.asked


@pytest.mark.whole
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("linear_extract('ab12', '([a-z]+)(\\\\d+)', 2)", "12"),
        ("linear_extract('ab', '(x)')", ""),
        ("linear_extract_all('a1b2', '\\\\d', 0)", ["1", "2"]),
        ("linear_replace('a1b2', '(\\\\d)', '<$1>')", "a<1>b<2>"),
        ("linear_split('a1b2c', '\\\\d')", ["a", "b", "c"]),
        ("linear_split('a1b2c', '\\\\d', 2)", ["a", "b2c"]),
        ("linear_split('abc', '')", ["a", "b", "c"]),
        ("linear_match('abc', substring('xbx', 2, 1))", True),
        ("linear_match(NULL, 'a')", None),
    ],
)
def test_the_functions_answer_as_sparks_do(spark: SparkSession, sql: str, expected: object) -> None:
    own = sql.replace("linear_match(", "regexp_like(").replace("linear_", "regexp_")
    own = own.replace("regexp_split", "split")

    ((ours, sparks),) = spark.sql(f"SELECT {sql}, {own}").collect()

    assert (ours, sparks) == (expected, expected)


@pytest.mark.whole
def test_a_computed_pattern_that_cannot_be_had_is_refused_with_a_sentence(
    spark: SparkSession,
) -> None:
    with pytest.raises(Exception, match="is none of RE2's"):
        spark.sql("SELECT linear_match('a', concat('(?=', id, ')')) FROM range(1)").collect()
    with pytest.raises(Exception, match="repeats too often"):
        spark.sql("SELECT linear_match('a', '((a{1000}){1000}){1000}')").collect()
    with pytest.raises(Exception, match="nested more than"):
        spark.sql(f"SELECT linear_match('a', '{'(' * 60}a{')' * 60}')").collect()
