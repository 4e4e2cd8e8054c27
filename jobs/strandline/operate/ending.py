"""Errors that end a program: which of them people know, and its exit code."""

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.engine.runtime.extras import missing

UNFORESEEN = 70
"""The exit code of an error that is none of ours."""

CODES = {
    0: "success, and nothing else",
    DefinitionError.exit_code: "correct the command or the definition",
    TransientError.exit_code: "try again",
    DataError.exit_code: "a person must look at the data, or a file of a table is damaged",
    UNFORESEEN: "something unforeseen: the message names a file with the trace",
    130: "stopped by Ctrl-C",
    141: "what read the output has ended",
}
"""What each exit code says; infra/docs/verbs.md has the same, which a test compares."""


class UnforeseenError(LakeError):
    """An error that is none of ours, of one table, whose trace was kept."""

    exit_code = UNFORESEEN


def foreseen(error: BaseException) -> LakeError | None:
    """Return the error that is shown: itself, the extra that is missing, the outage behind it, or a file that may not be read; None when it is unforeseen."""
    if isinstance(error, LakeError):
        return error
    if found := missing(error):
        return found
    # Not imported above, because it takes longer than most answers.
    from strandline.engine.runtime.outage import denied, transient  # noqa: PLC0415  # as above

    return transient(error) or denied(error)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    known = foreseen(error)
    return UNFORESEEN if known is None else known.exit_code
