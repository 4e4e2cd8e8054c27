"""A key is what every event has on which a rule fires; an event without it is passed over."""

import pytest

from strandline.alerting import alert_rule
from strandline.alerting.alert_rule import AlertRule, rules_folder
from strandline.alerting.condition import AllOf, AnyOf, Condition, Glob, Not, Number, Order, Text
from strandline.alerting.one_plan import MOST, SEPARATORS, key
from strandline.alerting.sigma import read_folder
from tests.rules.cases import CASES

RULES = [*(case.rule() for case in CASES), *read_folder(rules_folder()).rules]
PROCESSES = RULES[0].source


def text(column: str, glob: str) -> Text:
    return Text(column, Glob.parse(glob))


@pytest.mark.whole
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_every_event_on_which_a_rule_fires_has_its_key(rule: AlertRule) -> None:
    found = key(rule.when, rule.source)
    if found is None:
        return
    for event in rule.fires_on:
        value = event[found.column]
        part = SEPARATORS.split(value.lower())[-1] if isinstance(value, str) else value
        assert part in found.values


@pytest.mark.parametrize(
    ("condition", "column", "values"),
    [
        (text("Image", r"*\Cmd.exe"), "Image", {"cmd.exe"}),
        (text("Image", "*/bin/sh"), "Image", {"sh"}),
        (text("User", "Bob"), "User", {"bob"}),
        (Text("Image", Glob.parse(r"C:\Cmd.exe", cased=True)), "Image", {"cmd.exe"}),
        (Number("ProcessId", Order.IS, 4), "ProcessId", {4}),
        (AnyOf((text("Image", r"*\a"), text("Image", r"*\b"))), "Image", {"a", "b"}),
        (AllOf((text("Image", r"*\a"), text("User", "*x*"))), "Image", {"a"}),
        (AllOf((AnyOf((text("Image", "a"), text("Image", "b"))), text("User", "c"))), "User", {"c"}),
        (AnyOf((AllOf((text("Image", "a"), text("User", "b"))), text("User", "c"))), "User", {"b", "c"}),
    ],
)  # fmt: skip
def test_a_key_has_the_fewest_values(condition: Condition, column: str, values: set[str]) -> None:
    found = key(condition, PROCESSES)

    assert found is not None
    assert (found.column, set(found.values)) == (column, values)


@pytest.mark.parametrize(
    "condition",
    [
        text("Image", "*cmd.exe"),
        text("Image", r"*\*\cmd.exe*"),
        Not(text("Image", "a")),
        AnyOf((text("Image", "a"), text("User", "b"))),
        AnyOf((text("Image", "a"), Not(text("Image", "b")))),
        AnyOf(tuple(text("Image", str(n)) for n in range(MOST + 1))),
        Number("ProcessId", Order.ABOVE, 4),
        text("ProcessId", "4"),
    ],
)
def test_what_may_fire_without_one_has_no_key(condition: Condition) -> None:
    assert key(condition, PROCESSES) is None


def test_the_source_of_the_cases_is_the_one_of_programs() -> None:
    assert alert_rule.find("process_events") == PROCESSES
