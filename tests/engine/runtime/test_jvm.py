"""Spark's message about a failed process becomes an error with a hint."""

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from strandline.engine.runtime.jvm import SLOW, loss, ran_out


@pytest.mark.parametrize("kind", [StreamingQueryException, PySparkException])
def test_a_machine_that_is_too_busy_for_a_worker_is_reported(kind: type[PySparkException]) -> None:
    """Also when it is only the cause of the error raised."""
    error = kind(message=f"[INTERNAL] {SLOW}.")
    outer = RuntimeError("the stream ended")
    outer.__cause__ = error

    for each in (error, outer):
        lost = loss(each)
        assert lost is not None
        assert "too busy" in lost.message
        assert "it carries on" in lost.hint


def test_any_other_failure_is_no_loss_of_the_jvm() -> None:
    assert loss(StreamingQueryException(message="[DIVIDE_BY_ZERO] Division by zero.")) is None
    assert loss(ValueError("no")) is None


@pytest.mark.parametrize(
    "text",
    [
        "Lost task 1.0 in stage 24.0 (TID 141): java.lang.OutOfMemoryError: Java heap space",
        'because the return value of "org.apache.spark.SparkContext.dagScheduler()" is null',
        "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.",
    ],
)
def test_a_task_that_ran_out_of_memory_is_the_loss_that_the_jvm_is_about_to_be(text: str) -> None:
    """Spark ends its JVM for it, but the error of the task may come first."""
    lost = loss(StreamingQueryException(message=text))

    assert lost is not None
    assert "memory ran out" in lost.message


@pytest.mark.parametrize(
    ("text", "is_short"),
    [
        ("java.lang.OutOfMemoryError: GC overhead limit exceeded", True),
        ("ExecutorLostFailure (executor 5 exited) Reason: Command exited with code 52", True),
        ("ExecutorLostFailure (executor 5 exited) Reason: Command exited with code 137", False),
        ("SparkContext was shut down", False),
    ],
)
def test_only_what_names_memory_is_a_sign_of_it(text: str, is_short: bool) -> None:  # noqa: FBT001  # of the test
    """An executor that was killed has code 137, and Spark says that it was shut down, whatever the reason."""
    outer = RuntimeError("the stream ended")
    outer.__cause__ = StreamingQueryException(message=text)

    assert ran_out(outer) == is_short


def test_a_task_that_lost_its_executor_again_and_again_names_the_cluster() -> None:
    """Our JVM is there, and so is what it would need."""
    text = (
        "Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times, most recent failure: Lost task 0.3 in "
        "stage 9.0 (TID 41) (127.0.0.1 executor 5): ExecutorLostFailure (executor 5 exited caused by one of the running "
        "tasks) Reason: java.lang.OutOfMemoryError: Java heap space"
    )

    error = StreamingQueryException(message=text)
    lost = loss(error)

    assert ran_out(error)
    assert lost is not None
    assert "executor" in lost.message
    assert "spark.executor.memory" in lost.hint
