"""What a program lacks: a package that no project must have, or the JVM, which is gone."""

from strandline.core.errors import DefinitionError, TransientError
from strandline_infra import installation


class MissingExtraError(DefinitionError):
    """What was asked for needs an extra that is not installed."""


def without(extra: str) -> MissingExtraError:
    """Return the error for an extra that is not installed."""
    return MissingExtraError(
        f"the extra {extra} is not installed: {installation.EXTRAS[extra].for_what}",
        hint=installation.hint(extra),
        extra=extra,
    )


def refuse_without(extra: str) -> None:
    """Refuse to go on without the packages of an extra.

    Raises:
        MissingExtraError: They are not installed.
    """
    if not installation.is_installed(extra):
        raise without(extra)


def missing(error: BaseException) -> MissingExtraError | None:
    """Return the error that is shown for a module that an extra brings; None for every other error."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    extra = installation.of_module(error.name or "")
    return without(extra) if extra else None


# The error of a program whose JVM is gone, or was killed because it answered to nothing.
#
# It is apart from what recognises it (jvm.py), because that needs PySpark, which a command without a JVM does not load.


class SparkGoneError(TransientError):
    """The JVM is gone, and threads that waited for it may still be there when the program ends."""
