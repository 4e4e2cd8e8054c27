"""Only transient errors are tried again, a limited number of times; a run that was asked to end is not."""

import pytest
from dagster import AssetsDefinition, Failure, RetryRequested

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import TRIES, again_or_failed
from strandline_dagster.schedules import catch_up


def test_what_is_transient_is_tried_again_and_then_fails() -> None:
    away = TransientError("the broker is away", hint="wait.")

    found = [again_or_failed(away, tried) for tried in range(TRIES + 1)]

    assert [type(each) for each in found] == [RetryRequested, RetryRequested, Failure]
    assert "the broker is away" in str(found[-1].description)  # type: ignore[union-attr]  # a Failure


@pytest.mark.whole
@pytest.mark.parametrize("error", [DataError("x", hint="y."), DefinitionError("x", hint="y.")])
def test_what_only_a_person_can_mend_fails_at_once(error: LakeError) -> None:
    found = again_or_failed(error, 0)

    assert isinstance(found, Failure)
    assert not found.allow_retries


def test_no_policy_of_retries_keeps_a_run_from_ending() -> None:
    """Dagster respects one also when a run is interrupted."""
    made = [each for each in DEFINITIONS.assets or () if isinstance(each, AssetsDefinition)]

    assert all(each.op.retry_policy is None for each in made)
    assert all(node.retry_policy is None for node in catch_up().graph.node_defs)  # type: ignore[attr-defined]  # all are ops
