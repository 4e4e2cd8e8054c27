"""The explanation of a rule follows the specification: every case of tests/rules/cases.py, without Spark."""

import pytest

from strandline.alerting.compile import holds
from tests.rules.case import Case
from tests.rules.cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_modifier_does_what_the_specification_says(case: Case) -> None:
    rule = case.rule()

    assert [event for event in rule.fires_on if not holds(rule.when, event)] == []
    assert [event for event in rule.quiet_on if holds(rule.when, event)] == []
