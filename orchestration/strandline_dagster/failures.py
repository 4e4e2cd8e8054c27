"""Errors as failures of Dagster: transient ones are retried, all others wait for a person.

Why no ``RetryPolicy``: Dagster (1.13.27) applies it to interruptions too. A run that a redeploy or the page asked to
end waited half a minute and ran to its end.
"""

from collections.abc import Mapping

from dagster import Failure, MetadataValue, RetryRequested

from strandline.core.errors import LakeError, TransientError

KIND = "kind"
"""What to do: ``transient`` (try again), ``data`` (inspect the rows), ``definition`` (correct the code)."""


TRIES, DELAY = 2, 30
"""Retries of a transient error, and the seconds before each."""


def again_or_failed(error: LakeError, tried: int) -> Failure | RetryRequested:
    """Return a retry for a transient error with retries left, else a failure."""
    if isinstance(error, TransientError) and tried < TRIES:
        return RetryRequested(max_retries=TRIES, seconds_to_wait=DELAY)
    return failure(error)


def failure(error: LakeError, more: Mapping[str, MetadataValue] | None = None) -> Failure:
    """Return a failure with the error's message, hint and kind; only a transient one may be retried."""
    return Failure(
        str(error),
        metadata={"hint": error.hint, KIND: error.kind, **(more or {})},
        allow_retries=isinstance(error, TransientError),
    )
