"""A process with one contestant, and its JVM where it has one, which runs commands from stdin, a line each.

Why a process that stays: a JVM compiles its hot code in its first minute, and a contestant measured within it
pays for that. The parent measures, so that measuring costs the contestants nothing.

The end of stdin is the end of the process, and so is that of its parent; the JVM then loses its own stdin and goes.

Run as ``python -m tests.benchmarks.worker CONTESTANT LOG``.
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from strandline.engine.runtime.processes import end_with_starter
from tests.benchmarks.contestants import roster
from tests.benchmarks.contestants.contestant import Contestant, Place, Stop


def serve(contestant: Contestant, log: Path, commands: TextIO) -> Iterator[dict[str, object]]:
    """Do each command and yield the answer to it."""
    yield {**contestant.begin(log)}
    stop: Stop | None = None
    for line in commands:
        command = json.loads(line)
        do, names = command.pop("do"), tuple(command.pop("tables"))
        place = Place(**{**command, "root": Path(command["root"])})
        try:
            match do:
                case "catch_up":
                    contestant.catch_up(names, place)
                case "follow":
                    stop = contestant.follow(names, place)
                case "stop" if stop is not None:
                    stop()
            yield {"done": do}
        except Exception as error:  # noqa: BLE001  # the parent reports it
            traceback.print_exc()
            yield {"failed": f"{type(error).__name__}: {str(error)[:500]}"}


def main() -> None:
    """Talk to the parent; whatever else is printed goes to the log."""
    end_with_starter()  # a job may take minutes before it looks at stdin again
    name, log = sys.argv[1], Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for answer in serve(roster.KNOWN[name].load(), log, sys.stdin):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
