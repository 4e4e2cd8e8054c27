"""A plan that contradicts itself is refused before anything is sent."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest

from fleet.play.plan import Plan
from strandline.core.errors import DefinitionError
from tests.support.sending import truth

UNTIL = datetime.fromisoformat("2026-11-20T00:00:00+00:00")
PLAN = Plan(since=UNTIL - timedelta(days=1), until=UNTIL, events=100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": -1}, "events must not be negative"),
        ({"devices": 0}, "at least one device"),
        ({"until": PLAN.since}, "until must be later than since"),
        ({"since": datetime.fromisoformat("2026-11-19T00:00:00")}, "need a time zone"),
        ({"malformed": 1.5}, "malformed must be from 0 to 1, not 1.5"),
        ({"malformed": 0.5, "duplicate": 0.6}, "add up to more than 1"),
        ({"key_skew": float("nan")}, "key_skew must not be negative"),
        ({"late": timedelta(seconds=-1)}, "late and early must not be negative"),
        ({"events": 10**15}, "exceed 63 bits"),
    ],
)
def test_a_contradiction_is_named(change: dict[str, Any], message: str) -> None:
    """The sentence is all that the user sees."""
    with pytest.raises(DefinitionError) as caught:
        replace(PLAN, **change)

    assert message in caught.value.message


def test_all_contradictions_are_named_at_once() -> None:
    """Correcting them one by one costs a start each."""
    with pytest.raises(DefinitionError) as caught:
        replace(PLAN, events=-1, devices=0)

    assert len(caught.value.fields["wrong"]) == 2  # type: ignore[arg-type]  # a field is any object


def test_shares_may_fill_the_whole() -> None:
    """Ten tenths are not exactly one in binary, and meant all the same."""
    plan = replace(
        PLAN,
        malformed=0.1,
        duplicate=0.0,
        late_share=0.2,
        early_share=0.2,
        unknown_field=0.0,
        wrong_type=0.2,
        missing=0.3,
    )

    assert truth(plan).tables["silver.device_telemetry"].good == 0


@pytest.mark.whole
def test_the_truth_is_json() -> None:
    """It is written to a file, against which a lake is checked."""
    found = orjson.loads(orjson.dumps(truth(PLAN).as_dict()))

    assert found["topics"] == {"device-telemetry": 100}
    assert found["events"] == 100
    assert found["plan"]["since"] == "2026-11-19T00:00:00+00:00"
    assert found["plan"]["late"] == 3600.0
    silver = found["tables"]["silver.device_telemetry"]
    assert silver["good"] + silver["duplicates"] + sum(silver["quarantined"].values()) == 100
