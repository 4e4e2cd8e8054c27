"""Who hears what a use case says while it works: lines, and how far it is. The screen is one, the log of a Dagster step another, a log in JSON a third."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.project import missing

Says: TypeAlias = Callable[[str], None]
"""Hears a line."""

Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Begins work of so many parts, and hears how many of them are done."""


class Log(Protocol):
    """What a stream needs of a logger of structlog (jobs/strandline/engine/runtime/log_files.py)."""

    def info(self, event: str, *words: object, **figures: object) -> object:
        """Log what is as it should be."""

    def warning(self, event: str, *words: object, **figures: object) -> object:
        """Log what passes by itself."""

    def error(self, event: str, *words: object, **figures: object) -> object:
        """Log what may need a person."""

    def critical(self, event: str, *words: object, **figures: object) -> object:
        """Log what ends the stream."""


PAUSE = 60.0
"""Seconds between two lines of a log about the same."""


def tenths(says: Says) -> Progress:
    """Return what hears the progress of long work where nothing can be drawn: a line at each tenth."""

    @contextmanager
    def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
        last = 0

        def advance(done: int) -> None:
            nonlocal last
            tenth = done * 10 // max(total, 1)
            if tenth > last:
                last = tenth
                says(f"{what}: {done:,} of {total:,}")

        yield advance

    return progress


class Throttle:
    """Lets a repeated line pass once a minute, so that a log stays short."""

    def __init__(self, *, at_once: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Let the first line pass at once, or after a minute."""
        self._clock = clock
        self._due = clock() + (0 if at_once else PAUSE)

    def is_due(self) -> bool:
        """Return whether a line may pass now; if so, the next minute begins."""
        if self._clock() < self._due:
            return False
        self._due = self._clock() + PAUSE
        return True


# Errors that end a program: which of them people know, and its exit code.


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


# What is heard as JSON.


def of_json(value: Any) -> Any:  # noqa: ANN401  # whatever is answered
    """Return a value in which each number that JSON does not have (NaN, Infinity) is its name, a text."""
    match value:
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        case dict():
            return {name: of_json(each) for name, each in value.items()}
        case list() | tuple():
            return [of_json(each) for each in value]
        case _:
            return value


# A Variant comes from its file as two byte strings that are not readable, so it is shown as JSON.

VARIANT = {"metadata", "value"}


def plain(value: object, as_read: Callable[[str], object]) -> Any:  # noqa: ANN401  # whatever a column holds
    """Return a value in which each Variant is replaced by its JSON, as ``as_read`` reads it."""
    match value:
        case dict() if set(value) == VARIANT and all(isinstance(v, bytes) for v in value.values()):
            # Not imported above, because the help needs none of Spark.
            from pyspark.sql.types import VariantVal  # noqa: PLC0415  # as above

            try:
                return as_read(VariantVal(value["value"], value["metadata"]).toJson())
            except Exception:  # noqa: BLE001  # a struct of these names that is no Variant
                return value
        case dict():
            return {name: plain(each, as_read) for name, each in value.items()}
        case list():
            return [plain(each, as_read) for each in value]
        case _:
            return value


def exact_json(text: str) -> object:
    """Return what a text of JSON says; a number that a double cannot hold exactly stays a text."""
    return json.loads(text, parse_float=_exact)


def _exact(text: str) -> float | str:
    number = float(text)
    is_same = number - number == 0 and Decimal(repr(number)) == Decimal(text)
    return number if is_same else text
