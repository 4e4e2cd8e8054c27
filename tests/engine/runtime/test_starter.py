"""A program that works for another ends with it, also when that one is killed and can end nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import has_ended, own
from strandline.engine.service.maintain import left
from tests.engine.written import small_lake

STARTER = """
import sys, time
from pathlib import Path
from strandline.engine.runtime.processes import child
from strandline.engine.runtime.processes import tied
lake, is_tied = sys.argv[1], sys.argv[2] == "tied"
words = [sys.executable, "-m", "strandline.cli", "metrics", "--port", "0", "--lake", lake]
print(child(words, log=Path(lake) / "started.log", environment=tied() if is_tied else None).pid, flush=True)
time.sleep(600)
"""
PATIENCE = 60.0


@contextmanager
def started(lake: Lake, how: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a program that starts another one, wait until that one answers, and leave neither behind."""
    words = [sys.executable, "-c", STARTER, str(lake.root), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            _await_answers(lake)
            yield process, pid
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _await_answers(lake: Lake) -> None:
    log, deadline = lake.root.local / "started.log", time.monotonic() + PATIENCE
    while "/metrics" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.mark.whole
def test_it_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    """It ran on for ever, with whatever it held."""
    with started(small_lake(tmp_path / "lake"), "tied") as (process, pid):
        assert not has_ended(pid)

        process.kill()
        process.wait()

        deadline = time.monotonic() + PATIENCE
        while not has_ended(pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.whole
def test_one_that_is_not_tied_outlives_it(tmp_path: Path) -> None:
    """Such as a broker, or a stream in the background."""
    with started(small_lake(tmp_path / "lake"), "free") as (process, pid):
        process.kill()
        process.wait()

        assert not has_ended(pid)


def test_what_a_killed_spark_spilled_is_left_behind_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    """Blocks of a shuffle stayed for ever; those of an earlier version have no name of a process, and go when they are old."""
    lake = small_lake(tmp_path / "lake")
    folder, who = lake.root / "_logs" / "scratch", own()
    names = {
        "living": f"{who['host']}-{who['pid']}-{who['started']:.0f}",
        "dead": f"{who['host']}-{who['pid']}-1",
        "elsewhere": f"another-{who['pid']}-1",
        "serve": "serve-10000",
    }
    for name in names.values():
        (folder / name / "blockmgr-1" / "shuffle").put("blocks")

    found = [each.path.name for each in left(lake, clock.now())]

    assert found == [names["dead"]]
