"""What is to be done about an error, said to Dagster: what is transient is tried again, all else waits for a person.

Why no ``RetryPolicy``: Dagster (1.13.27) respects it for interruptions too, so that a run which was asked to end, by a
redeploy or from the page, waited half a minute and went on to its end.
"""

from collections.abc import Mapping

from dagster import Failure, MetadataValue, RetryRequested

from jobs.core.errors import LakeError, TransientError

KIND = "kind"
"""What is to be done: ``transient`` (try again), ``data`` (look at it), ``definition`` (correct it)."""


TRIES, DELAY = 2, 30
"""So often what is transient is tried again, so many seconds later."""


def again_or_failed(error: LakeError, tried: int) -> Failure | RetryRequested:
    """Ask for another attempt where that may help, and say what happened where it does not."""
    if isinstance(error, TransientError) and tried < TRIES:
        return RetryRequested(max_retries=TRIES, seconds_to_wait=DELAY)
    return failure(error)


def failure(error: LakeError, told: Mapping[str, MetadataValue] | None = None) -> Failure:
    """Say what happened and what to do; what cannot be otherwise the next time is not tried again."""
    return Failure(
        str(error),
        metadata={"hint": error.hint, KIND: error.kind, **(told or {})},
        allow_retries=isinstance(error, TransientError),
    )
