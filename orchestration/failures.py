"""What is to be done about an error, said to Dagster: what is transient is tried again, all else waits for a person."""

from dagster import Failure

from jobs.core.errors import DataError, LakeError, TransientError

KIND = "kind"


def kind(error: LakeError) -> str:
    """Return what is to be done: ``transient`` (try again), ``data`` (look at it), ``definition`` (correct it)."""
    if isinstance(error, TransientError):
        return "transient"
    return "data" if isinstance(error, DataError) else "definition"


def failure(error: LakeError) -> Failure:
    """Say what happened and what to do; what cannot be otherwise the next time is not tried again."""
    return Failure(
        str(error),
        metadata={"hint": error.hint, KIND: kind(error)},
        allow_retries=isinstance(error, TransientError),
    )
