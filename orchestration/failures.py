"""What is to be done about an error, said to Dagster: what is transient is tried again, all else waits for a person."""

from collections.abc import Mapping

from dagster import Failure, MetadataValue

from jobs.core.errors import LakeError, TransientError

KIND = "kind"
"""What is to be done: ``transient`` (try again), ``data`` (look at it), ``definition`` (correct it)."""


def failure(error: LakeError, told: Mapping[str, MetadataValue] | None = None) -> Failure:
    """Say what happened and what to do; what cannot be otherwise the next time is not tried again."""
    return Failure(
        str(error),
        metadata={"hint": error.hint, KIND: error.kind, **(told or {})},
        allow_retries=isinstance(error, TransientError),
    )
