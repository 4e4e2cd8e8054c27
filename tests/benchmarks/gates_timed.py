"""``strandline`` with a clock around every function that checks a gate; the seconds go to a file.

Run as ``python -m tests.benchmarks.gates_timed FILE WORDS``.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from strandline.cli import main as line
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.flow import recompute
from strandline.engine.flow.batch import batch_writer, event_joins
from strandline.engine.repair import backfill

Words = ParamSpec("Words")
Answer = TypeVar("Answer")

spent: list[float] = []


def timed(function: Callable[Words, Answer]) -> Callable[Words, Answer]:
    """Let a function say how long it took."""

    @wraps(function)
    def clocked(*words: Words.args, **named: Words.kwargs) -> Answer:
        began = time.monotonic()
        try:
            return function(*words, **named)
        finally:
            spent.append(time.monotonic() - began)

    return clocked


def main() -> None:
    """Put clocks around, then do what was typed."""
    file = Path(sys.argv.pop(1))
    Guard.admit = timed(Guard.admit)  # type: ignore[method-assign]  # what this program is for
    Guard.passed = timed(Guard.passed)  # type: ignore[method-assign]  # as above
    for module in (backfill, recompute, batch_writer):
        module.refuse_behind = timed(module.refuse_behind)  # type: ignore[attr-defined]  # as above
    event_joins.behind_source = timed(event_joins.behind_source)  # type: ignore[attr-defined]  # as above
    try:
        line.main()
    finally:
        file.write_text(json.dumps(sum(spent)))


if __name__ == "__main__":
    main()
