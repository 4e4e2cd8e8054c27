"""Examples of threshold rules: what must fire fires, what must stay quiet does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from strandline.alerting.alert_rule import ThresholdRule, rules_folder
from strandline.alerting.rule_folder import broken_thresholds
from strandline.alerting.sigma import read_folder
from strandline.core.errors import DefinitionError

RULES = read_folder(rules_folder()).thresholds


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.origin)
def test_the_examples_of_the_starter_set_hold(rule: ThresholdRule) -> None:
    assert rule.fires_on
    assert rule.quiet_on
    assert broken_thresholds([rule]) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.origin)
def test_an_example_that_contradicts_its_rule_is_named(rule: ThresholdRule) -> None:
    wrong = replace(rule, fires_on=rule.quiet_on, quiet_on=rule.fires_on)

    reasons = [reason for _, reason in broken_thresholds([wrong])]

    assert reasons[0] == "stays quiet on example 1 of its fires_on"
    assert reasons[-1] == "fires on example 1 of its quiet_on"
    assert len(reasons) == len(rule.fires_on) + len(rule.quiet_on)


@pytest.mark.whole
def test_the_length_of_the_window_decides() -> None:
    (rule,) = (each for each in RULES if each.origin == "login_from_many_devices.yml#2")

    shorter = replace(rule, within=timedelta(minutes=9))

    assert [reason for _, reason in broken_thresholds([shorter])] == [
        "stays quiet on example 1 of its fires_on"
    ]


def test_an_event_without_a_time_is_refused() -> None:
    (rule,) = (each for each in RULES if each.origin == "login_from_many_devices.yml#2")
    (events,) = rule.fires_on

    with pytest.raises(DefinitionError, match="has no time"):
        broken_thresholds([replace(rule, fires_on=(({**events[0], "event_at": None},),))])
