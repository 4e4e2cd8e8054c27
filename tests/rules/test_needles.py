"""A needle is in every event on which its rule fires, and one search finds any of many."""

import re

import pytest

from strandline.alerting.alert_rule import AlertRule, rules_folder
from strandline.alerting.compile import holds
from strandline.alerting.condition import AllOf, AnyOf, Condition, Glob, Matches, Missing, Not, Text
from strandline.alerting.one_plan import LONGEST, MOST, as_one_search, needles
from strandline.alerting.sigma import read_folder
from tests.rules.cases import CASES

RULES = [*(case.rule() for case in CASES), *read_folder(rules_folder()).rules]
TEXTS = [
    "-decode",
    "-decompress",
    "-enc",
    "-enco",
    " /c",
    "${x}",
    "a|b",
    "é€😀",
    "\\",
    "\n\t",
    "[.*]",
]


def line(glob: str, *, cased: bool = False) -> Text:
    return Text("CommandLine", Glob.parse(glob, cased=cased))


@pytest.mark.whole
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_no_rule_fires_on_an_event_without_one_of_its_needles(rule: AlertRule) -> None:
    """Over every case of the specification."""
    wanted = needles(rule.when)
    if wanted is None:
        return
    for event in (each for other in RULES for each in other.fires_on):
        if holds(rule.when, event):
            lower = {column: str(value).lower() for column, value in event.items()}
            assert any(text in lower[column] for column, text in wanted), event


def test_many_of_the_cases_have_needles() -> None:
    """Otherwise the test above asks nothing."""
    assert sum(needles(rule.when) is not None for rule in RULES) > len(RULES) / 4


@pytest.mark.whole
@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (line("*-Decode*"), ["-decode"]),
        (line("*ab*abcd*"), ["abcd"]),
        (line("*ab*"), None),
        (line("*É-TEXT*", cased=True), None),
        (line("*É-TEXT*"), ["é-text"]),
        (line("*" + "x" * 99), ["x" * LONGEST]),
        (Matches("CommandLine", "Mimi\\w+"), ["mimi"]),
        (AnyOf((line("*abc*"), line("*def*"))), ["abc", "def"]),
        (AnyOf((line("*abc*"), Missing("User"))), None),
        (AnyOf(tuple(line(f"*abc{n}*") for n in range(MOST + 1))), None),
        (AllOf((line("*abc*"), Missing("User"))), ["abc"]),
        (AllOf((line("*abc*"), line("*longer*"))), ["longer"]),
        (Not(line("*abc*")), None),
    ],
    ids=str,
)
def test_the_needles_of_a_condition(condition: Condition, texts: list[str] | None) -> None:
    """In any order; in the cases they are lists, because a set in a test's name would differ from worker to worker."""
    found = needles(condition)

    assert (None if found is None else sorted(text for _, text in found)) == texts


def test_one_search_finds_a_text_if_and_only_if_one_is_there() -> None:
    """Java and Python read the expression alike, but for how a character is written by its number."""
    search = re.sub(r"\\x\{(\w+)\}", lambda m: re.escape(chr(int(m[1], 16))), as_one_search(TEXTS))

    for text in TEXTS:
        assert re.search(search, f"before{text}after")
    for text in ("decode", "-de", "a", "|", "$", "{x}", ".", "e", ""):
        assert not re.search(search, text)


def test_one_search_of_texts_that_begin_alike_compares_their_beginning_once() -> None:
    assert as_one_search(["xabc", "xabd", "xabdef"]) == "xab(?:c|d)"
