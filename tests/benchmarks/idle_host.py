"""What a stream costs that has nothing to do: ``python -m tests.benchmarks.idle_host --topics 92`` (300 tables with the example's).

The tables of generated topics stream beside the example's until each has its rows and nothing is unread. Then the CPU of Python
and of the JVM is counted for some minutes, without the broker's. At last one event is sent, and it is measured when it is in silver.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.architecture.tree import search_path
from tests.benchmarks.machine import facts
from tests.support import project
from tests.support.many_tables import generated, sent

READINGS = 30
LONGEST = 3_600.0
"""Seconds until each table has its rows and is at rest."""


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=92, help="topics of three tables each")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the measurement")
    parser.add_argument("--every", default="5s", help="between two batches of a table")
    parser.add_argument("--rest", type=float, default=240.0, help="seconds without a commit before")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-host-") as folder:
        copy = generated(Path(folder) / "copy", typed.topics)
        _typed(copy, "up")
        try:
            _typed(copy, "produce", "--events", "2000", "--hours", "2")
            address = _status(copy)["kafka"]
            sent(address, typed.topics, READINGS, datetime.now(UTC))  # noqa: TID251  # what bronze compares with its own clock
            found = _measured(copy, address, typed)
        finally:
            _typed(copy, "down")
    print(json.dumps({**facts(), **found}, indent=2))  # noqa: T201  # the figures


def _measured(copy: Path, address: str, typed: argparse.Namespace) -> dict[str, object]:
    log = copy / "stream.log"
    env = {**os.environ, "PYTHONPATH": search_path(copy), "STRANDLINE_LAKE": str(copy / "lake")}
    words = (sys.executable, "-c", project.TYPED, "stream", "--every", typed.every)
    with log.open("wb") as out:
        stream = subprocess.Popen(words, cwd=copy, env=env, stdout=out, stderr=out)
    try:
        begun = time.monotonic()
        _await(stream, log, lambda: _is_level(copy, typed.topics), "tables that have their rows")
        level = time.monotonic() - begun
        _say(f"each table has its rows after {level:.0f} s")
        _await(stream, log, lambda: _rested(copy) > typed.rest, "a rest")
        _say("at rest")
        idle = _counted(stream, typed.minutes * 60)
        _say(json.dumps(idle))
        before = _rows(copy, "silver.many_0")
        at = time.monotonic()
        sent(address, 1, READINGS + 1, datetime.now(UTC))  # noqa: TID251  # as above
        _await(stream, log, lambda: _rows(copy, "silver.many_0") > before, "a late event", 0.5)
        woken = time.monotonic() - at
        stream.send_signal(signal.SIGTERM)
        assert stream.wait(300) == 0, log.read_text()[-3000:]
    finally:
        if stream.poll() is None:
            stream.kill()
    return {
        "tables": len(_beat(copy)),
        "every": typed.every,
        "level_after": round(level),
        **idle,
        "an_event_in_silver_after": round(woken, 1),
    }


def _counted(stream: "subprocess.Popen[bytes]", seconds: float) -> dict[str, object]:
    host = psutil.Process(stream.pid)
    tree = [host, *host.children(recursive=True)]
    before = {each.pid: _cpu(each) for each in tree}
    time.sleep(seconds)
    used = {each: _cpu(each) - before[each.pid] for each in tree if each.is_running()}
    jvm = [each for each in used if "java" in each.name()]
    python = [each for each in used if each not in jvm]

    def a_minute(of: Sequence[psutil.Process]) -> float:
        return round(sum(used[each] for each in of) * 60 / seconds, 2)

    return {
        "cpu_seconds_a_minute": a_minute([*used]),
        "of_python": a_minute(python),
        "of_the_jvm": a_minute(jvm),
        "threads_of_python": host.num_threads(),
        "files_of_python": host.num_fds(),
        "threads_of_the_jvm": sum(each.num_threads() for each in jvm),
        "mib_of_python": round(host.memory_info().rss / 2**20),
        "mib_of_the_jvm": round(sum(each.memory_info().rss for each in jvm) / 2**20),
    }


def _cpu(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


def _await(
    stream: "subprocess.Popen[bytes]",
    log: Path,
    reached: Callable[[], bool],
    what: str,
    pause: float = 5.0,
) -> None:
    due = time.monotonic() + LONGEST
    while not reached():
        assert stream.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < due, f"no {what}"
        time.sleep(pause)


def _is_level(copy: Path, topics: int) -> bool:
    beat = _beat(copy)
    wanted = {f"{layer}.many_{n}" for n in range(topics) for layer in ("bronze", "silver")}
    have = {name for name, each in beat.items() if each["batches"]}
    _say(f"{len(wanted - have)} without rows")
    return wanted <= have and not any(each["lag"] or each["failing"] for each in beat.values())


def _rested(copy: Path) -> float:
    """Return the seconds since the last commit of any table."""
    newest = max(each["at"] for each in _beat(copy).values() if each["at"])
    return (datetime.now(UTC) - datetime.fromisoformat(newest)).total_seconds()  # noqa: TID251  # of the host's clock


def _rows(copy: Path, table: str) -> int:
    return int(_beat(copy)[table]["read"])


def _beat(copy: Path) -> dict[str, Any]:
    """Read what the host wrote of its tables; asking a verb would cost a second of the machine each time."""
    file = copy / "lake" / "_stream.json"
    return dict(json.loads(file.read_text())["tables"]) if file.exists() else {}


def _typed(copy: Path, *words: str) -> str:
    return project.ran(copy, "-c", project.TYPED, *words)


def _status(copy: Path) -> Any:  # noqa: ANN401  # an answer in JSON
    return json.loads(project.tried(copy, "-c", project.TYPED, "status", "--json").stdout)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # how far it is


if __name__ == "__main__":
    main()
