"""What Spark says when something beneath it fails becomes a sentence with what to do next."""

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from jobs.run.jvm import SLOW, loss


@pytest.mark.parametrize("kind", [StreamingQueryException, PySparkException])
def test_a_machine_that_is_too_busy_for_a_worker_is_told(kind: type[PySparkException]) -> None:
    """Also when it is only the cause of what was raised."""
    error = kind(message=f"[INTERNAL] {SLOW}.")
    outer = RuntimeError("the stream ended")
    outer.__cause__ = error

    for each in (error, outer):
        told = loss(each)
        assert told is not None
        assert "too busy" in told.message
        assert "it carries on" in told.hint


def test_any_other_failure_is_not_explained_away() -> None:
    assert loss(StreamingQueryException(message="[DIVIDE_BY_ZERO] Division by zero.")) is None
    assert loss(ValueError("no")) is None
