"""What is read has one meaning in every engine; what has several is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.regex.parse import RefusedError, parse
from jobs.rules.regex.write import Engine, written


@pytest.mark.parametrize(
    "text",
    [
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#x)", "a(?i)b", "(?x)a", "(?U)a", "(*UTF8)a",
        r"(a)\1", r"\k<a>", r"\p{L}", r"\P{L}", r"\pL", r"\C", r"\v", r"\h", r"\R", r"\X", r"\G", r"\Z", r"\12", r"\x{110000}",
        "a++", "a*+", "a??+", "a{2}{3}", "a{3,2}", "a{1,9999}", "*a", "(?:+)", "a**",
        "(a", "a)", "[a", "[", "[]", "[^]", "[b-a]", r"[\d-z]", "[[:colour:]]", "a\\", "(" * 100 + ")" * 100, "a" * 5_000,
    ],
)  # fmt: skip
def test_what_engines_read_differently_is_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        parse(text)


PIECES = st.sampled_from(
    ["a", "b", ".", r"\.", r"\d", r"\W", r"\s", "[ab]", "[^a]", "[a-c0-9]", "(a|b)", "(?:ab)", "^", "$", r"\b", "x", "-"]
)  # fmt: skip
COUNTS = st.sampled_from(["", "", "*", "+", "?", "{1,2}", "*?", "+?"])
EXPRESSIONS = st.lists(st.tuples(PIECES, COUNTS), min_size=1, max_size=5).map(
    lambda parts: "".join(p if p in {"^", "$", r"\b"} else p + count for p, count in parts)
)


@given(EXPRESSIONS, st.text("ab1. x-\n", max_size=8))
def test_it_finds_what_was_written(expression: str, text: str) -> None:
    """Python's own reading of the same text is the oracle; the pieces mean the same to it."""
    meant = re.search(expression, text, re.ASCII)

    found = re.search(written(parse(expression), Engine.PYTHON), text)

    assert (found is None) == (meant is None)
