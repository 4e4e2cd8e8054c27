"""A process with one contestant and its JVM, which runs commands from stdin, a line each.

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
from tests.benchmarks.contestants.contestant import Contestant, Place, Stop
from tests.benchmarks.contestants.nexmark import Nexmark
from tests.benchmarks.contestants.strandline import Strandline
from tests.benchmarks.contestants.tuned import Tuned
from tests.benchmarks.contestants.tutorial import Tutorial

CONTESTANTS: dict[str, type[Contestant]] = {
    "nexmark": Nexmark,
    "strandline": Strandline,
    "tuned": Tuned,
    "tutorial": Tutorial,
}


def serve(contestant: Contestant, log: Path, commands: TextIO) -> Iterator[dict[str, object]]:
    """Do each command and yield the answer to it."""
    spark = contestant.session(log)
    stop: Stop | None = None
    yield {"java": spark.sparkContext._jvm.System.getProperty("java.version")}  # type: ignore[union-attr]  # the session is there
    for line in commands:
        command = json.loads(line)
        place = Place(
            root=Path(command["root"]),
            address=command["address"],
            topic=command["topic"],
            on_change=command["on_change"],
            partitions=command["partitions"],
        )
        try:
            match command["do"]:
                case "catch_up":
                    contestant.catch_up(command["tables"][0], place)
                case "follow":
                    stop = contestant.follow(tuple(command["tables"]), place)
                case "stop" if stop is not None:
                    stop()
            yield {"done": command["do"]}
        except Exception as error:  # noqa: BLE001  # the parent reports it
            traceback.print_exc()
            yield {"failed": f"{type(error).__name__}: {str(error)[:500]}"}


def main() -> None:
    """Talk to the parent; whatever else is printed goes to the log."""
    end_with_starter()  # a job may take minutes before it looks at stdin again
    name, log = sys.argv[1], Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for answer in serve(CONTESTANTS[name](), log, sys.stdin):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
