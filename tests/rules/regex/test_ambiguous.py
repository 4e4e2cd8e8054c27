"""Expressions that cost exponential time are found by looking at them, and none that is used daily is among them."""

import pytest

from jobs.rules.regex.ambiguous import run_away
from jobs.rules.regex.parse import parse
from jobs.rules.regex.trial import too_slow


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$", "(a*)*b", "(a|a)*b", "(a|aa)+b", "(x+x+)+y", "([a-z]+)*1", "(.*a){12}b", "(a?){30}a{30}", "((ab)*(cd)*)*e",
        r"(\w|\d)+x", r"(\s*\s*)*x", "(a|[ab])+c", "(?:(?:a+b?)+)+c", "^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)  # fmt: skip
def test_a_loop_that_reads_one_text_in_many_ways_is_found(text: str) -> None:
    assert run_away(parse(text).tree)


@pytest.mark.parametrize(
    "text",
    [
        r"(\w+\.)+com", r"(?:[^\\]*\\)+x", r"^\d{1,3}(\.\d{1,3}){3}$", r"(\s+-\w+)*", r"a.*b.*c", "(ab|cd)+", "(a+b)+c",
        r"[A-Za-z0-9+/]{40,}={0,2}", r"(?:\S+\s){3,}end", r"(\\x[0-9a-f]{2}){4,}", "(a{1,3}b)*",
    ],
)  # fmt: skip
def test_a_loop_that_reads_it_in_one_way_is_not(text: str) -> None:
    assert run_away(parse(text).tree) is None


def test_the_other_case_of_a_letter_counts_where_case_is_ignored() -> None:
    tree = parse("(a|A)*b").tree

    assert run_away(tree) is None
    assert run_away(tree, ignores_case=True)


def test_a_trial_ends_what_costs_a_power_of_the_length_and_goes_on_behind_it() -> None:
    asked = ["a.*b", "a.*a.*a.*a.*a.*b", r"(\w+\.)+com", "(a+)+$", "fine"]

    assert too_slow([(each, "") for each in asked]) == {1, 3}
