"""A rule is a value: its version is the hash of its meaning, and it is refused where it means nothing."""

import pytest

from strandline.alerting import alert_rule
from strandline.alerting.alert_rule import AlertRule, AlertSource, Severity
from strandline.alerting.condition import (
    AllOf,
    AnyOf,
    Condition,
    Glob,
    Matches,
    Missing,
    Not,
    Text,
    simplified,
)
from strandline.core.errors import DefinitionError

A = Text("Image", Glob.parse("*A.exe"))
B = Text("User", Glob.parse("b"))
C = Matches("CommandLine", "c+", "i")


def processes() -> AlertSource:
    found = alert_rule.find("process_events")
    assert found is not None
    return found


def rule(when: Condition, **more: object) -> AlertRule:
    return AlertRule(id="r", title="x", source=processes(), when=when, **more)  # type: ignore[arg-type]  # as given


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (AllOf((A, B)), AllOf((B, A))),
        (AllOf((A, AllOf((B, C)))), AllOf((A, B, C))),
        (AnyOf((A, A)), A),
        (Not(Not(A)), A),
        (A, Text("Image", Glob.parse("*a.EXE"))),
    ],
)
def test_rules_of_one_meaning_have_one_version(one: Condition, other: Condition) -> None:
    assert rule(one).version == rule(other).version


@pytest.mark.parametrize(
    "other",
    [AnyOf((A, B)), AllOf((A, B, C)), Not(AllOf((A, B))), AllOf((A, Text("User", Glob.parse("b", cased=True))))],
)  # fmt: skip
def test_rules_of_other_meanings_have_others(other: Condition) -> None:
    assert rule(AllOf((A, B))).version != rule(other).version


def test_words_do_not_change_the_version() -> None:
    one = rule(A, severity=Severity.LOW, runbook="x", fires_on=({"Image": "a.exe"},))

    assert one.version == rule(A).version


@pytest.mark.whole
def test_a_version_is_the_same_in_every_process() -> None:
    """A hash of Python's would differ from one start to the next, and every alert would have a new identity."""
    assert rule(AllOf((A, B, C))).version == "e07c6de16cf6"


def test_the_owner_of_the_table_answers_where_the_rule_names_none() -> None:
    assert rule(A).owner == processes().table.owner


def test_a_column_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(DefinitionError, match="Colour"):
        rule(Missing("Colour"))


@pytest.mark.parametrize("event", [{"Colour": "red"}, {"ProcessId": "4"}, {"Image": 4}, {"ProcessId": True}, {"UtcTime": "noon"}, {"ProcessId": 1 << 63}])  # fmt: skip
def test_an_example_that_is_no_row_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        rule(A, fires_on=(event,))


def test_cheap_parts_come_first() -> None:
    ordered = simplified(AllOf((C, Text("Image", Glob.parse("*a*")), B, Missing("Hashes"))))

    assert isinstance(ordered, AllOf)
    assert [type(part) for part in ordered.parts] == [Missing, Text, Text, Matches]
    assert ordered.parts[1] == B
