"""Data is carried off in a share of the connections that the plan names, and in no other; a plan without one is as it was."""

import json
from dataclasses import replace

import pytest

from tests.support.traffic import payloads, plan

pytestmark = pytest.mark.whole

EVENTS = 2_000


def made(share: float) -> list[dict[str, object]]:
    return [json.loads(payload) for payload, _ in payloads(replace(plan(EVENTS), planted=share))]


def test_planted_connections_are_those_to_the_far_ends_of_the_label_and_the_others_are_as_without() -> (
    None
):
    """So the label of a model is the truth, and each run has the same."""
    plain, planted = made(0.0), made(0.05)
    odd = [each for each in planted if str(each["dst_ip"]).startswith("203.0.113.")]

    assert not [each for each in plain if str(each["dst_ip"]).startswith("203.0.113.")]
    assert 60 < len(odd) < 140
    assert planted == made(0.05)
    assert [one for one in planted if one not in odd] == [
        one for one, other in zip(plain, planted, strict=True) if other not in odd
    ]
    assert all(6_000 <= int(str(each["bytes_out"])) < 46_000 for each in odd)
