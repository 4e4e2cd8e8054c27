"""The error of an object store that does not answer, and how it is recognised in what its clients say.

It is apart from the other outages (jobs/engine/runtime/outage.py), because those need PySpark, which a command without a JVM does
not load.
"""

from jobs.core.errors import TransientError

SILENT = (
    "Unable to execute HTTP request",
    "AWSStatus500Exception",
    "AWSServiceThrottledException",
    "HttpChannelEOFException",
    "retry_timeout:",
)
"""What their errors contain: Hadoop's in the JVM, and, last, those of the client that delta-rs, DuckDB and this project have, once
it has tried again for as long as it may."""


class StoreAwayError(TransientError):
    """The object store does not answer."""

    def __init__(self, why: str, place: str = "") -> None:
        """Name what it does not answer for, and why, as far as is known."""
        about = f" for {place}" if place else ""
        super().__init__(
            f"the object store does not answer{about}: {why}",
            hint="compare AWS_ENDPOINT_URL with where it runs; nothing is lost, a stream goes on by itself, and any other "
            "command is typed again.",
            **({"lake": place} if place else {}),
        )


def is_silent_store(text: str) -> bool:
    """Return whether an error means that the store does not answer."""
    return any(words in text for words in SILENT)


def reason(text: str) -> str:
    """Return the line of such an error that has the reason."""
    found = (line for line in text.splitlines() if is_silent_store(line))
    return next(found, text).strip().rpartition("Exception: ")[2][:300]
