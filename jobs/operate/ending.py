"""Errors that end a program: which of them people know, and its exit code."""

from jobs.core.errors import LakeError

UNFORESEEN = 70
"""The exit code of an error that is none of ours."""


class UnforeseenError(LakeError):
    """An error that is none of ours, of one table, whose trace was kept."""

    exit_code = UNFORESEEN


def foreseen(error: BaseException) -> LakeError | None:
    """Return the error that is shown: itself, or the outage behind it, or a file that may not be read; None when it is unforeseen."""
    if isinstance(error, LakeError):
        return error
    # Not imported above, because it takes longer than most answers.
    from jobs.engine.runtime.outage import denied, transient  # noqa: PLC0415  # as above

    return transient(error) or denied(error)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    known = foreseen(error)
    return UNFORESEEN if known is None else known.exit_code
