"""What Dagster does while the store of the lake does not answer: a look ends within seconds, says so, and the next one tries again.

A look that waits as a stream does takes half a minute for each request, and Dagster ends a sensor after one; the error that it
then shows has no sentence. The lake's first asset is red meanwhile (orchestration/strandline_dagster/well.py).
"""

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dagster import SkipReason

from strandline.engine.runtime.store_away import AWAY
from strandline.engine.service.stream_health import SILENT, Ill, Watch
from strandline.operate import lakes

BACK = "the store answers again; a program that waited for it has a minute to write its heartbeat"

_away: list[float] = []
"""When the store was seen to be away last, by this process, which makes all looks."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


def refuse_away() -> None:
    """Ask the store of the lake for one object, and wait for it no longer than a person does; a folder is not asked.

    Raises:
        StoreAwayError: It does not answer.
        KeysRefusedError: It refuses the keys.
    """
    try:
        lakes.asked(None)
    except AWAY:
        _away[:] = [time.monotonic()]
        raise


def is_back_only_now(found: Watch) -> bool:
    """Return whether a heartbeat may be old because the store was away: a stream that waited for it lives, and writes the next one."""
    within = SILENT.total_seconds()
    return found.ill is Ill.SILENT and any(time.monotonic() - each < within for each in _away)


def unless_away(look: Callable[Given, Result]) -> Callable[Given, Result | SkipReason]:
    """Skip a look of a sensor while the store does not answer."""

    @wraps(look)
    def skips(*args: Given.args, **kwargs: Given.kwargs) -> Result | SkipReason:
        try:
            refuse_away()
            return look(*args, **kwargs)
        except AWAY as error:
            return SkipReason(error.message)

    return skips
