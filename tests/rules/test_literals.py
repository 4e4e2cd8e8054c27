"""The text that is looked for first is in everything that the expression finds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.literals import required_literal
from jobs.rules.regex.parse import parse
from jobs.rules.regex.write import Engine, written


@pytest.mark.parametrize(
    ("expression", "flags", "text"),
    [
        (r"\snet\suse\b", "", "net"),
        (r"-opt5\s+[a-z]{3}", "i", "-opt5"),
        ("(?i)xABCd", "", "xabcd"),
        ("a(bcdef)?xyz", "", "xyz"),
        ("abc|def", "", None),
        ("(abcd)*", "", None),
        ("ab", "", None),
        ("mimikatz", "i", "atz"),
        ("mimikatz", "", "mimikatz"),
        ("a.b.c", "", None),
    ],
)
def test_it_is_the_longest_that_is_certain(expression: str, flags: str, text: str | None) -> None:
    assert required_literal(parse(expression, flags)) == text


PIECES = st.sampled_from(
    ["abc", "x", "SI", "k", "(ab)?", "(c|d)", "[xy]", ".", "bcd*", "a{1}", "K"]
)
LETTERS = st.sampled_from("aAbBcCdDxXyYsSiIkK\u017f\u0131\u0130\u212a")


@given(
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
    st.sampled_from(["", "i"]),
    st.text(LETTERS, max_size=10),
)
def test_what_is_found_contains_it(expression: str, flags: str, text: str) -> None:
    """Also letters whose other case is a third letter, which engines find where case is ignored."""
    read = parse(expression, flags)
    needed = required_literal(read)
    is_found = re.search(written(read, Engine.PYTHON), text) is not None

    assert not is_found or needed is None or needed in (text.lower() if flags else text)
