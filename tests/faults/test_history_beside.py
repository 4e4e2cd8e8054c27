"""History holds each commit once, also when several write it and when they are killed."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

from strandline.engine.accounting.commit_history import catch_up, figure_columns
from strandline.engine.lake.commit.delta_commit import ClaimedRows
from strandline.engine.lake.lake import Lake
from tests.support.days import TABLES, morning, once

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
from strandline import catalog
from strandline.engine.accounting.commit_history import catch_up
from strandline.engine.lake.lake import Lake
print("ready", flush=True)
sys.stdin.readline()
catch_up(Lake(Path(sys.argv[1])), [t for t in catalog.tables() if Lake(Path(sys.argv[1])).exists(t)])
"""


def test_several_may_begin_the_history_of_a_lake_at_the_same_time(tmp_path: Path) -> None:
    """Delta refuses all but one, because the table's protocol changed under them."""
    for attempt in range(10):
        lake = Lake(tmp_path / str(attempt))
        together = Barrier(6)

        def begin(lake: Lake = lake, together: Barrier = together) -> str:
            together.wait()
            return ClaimedRows(lake.history, figure_columns)._table.table_uri

        with ThreadPoolExecutor(6) as pool:
            found = [pool.submit(begin) for _ in range(6)]
            assert len({each.result() for each in found}) == 1


def test_processes_that_catch_up_at_the_same_time_write_each_commit_once(tmp_path: Path) -> None:
    """A schedule, a person and a report ask at the same moment."""
    lake = morning(tmp_path)
    with ExitStack() as stack:
        several = [stack.enter_context(started(lake)) for _ in range(4)]
        for process in several:
            listens(process)
        for process in several:
            let_go(process)
        codes = [process.wait(120) for process in several]

    assert codes == [0, 0, 0, 0]
    assert once(lake)


def test_a_catch_up_that_was_killed_leaves_nothing_twice_and_nothing_out(tmp_path: Path) -> None:
    """Wherever it was: a file without a commit belongs to no version."""
    lake = morning(tmp_path)
    for wait in (0.0, 0.01, 0.02, 0.04, 0.08):
        with started(lake) as process:
            listens(process)
            let_go(process)
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)

    catch_up(lake, TABLES)

    assert once(lake)


def started(lake: Lake) -> "subprocess.Popen[str]":
    """Start a process that has imported everything and waits for a line."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(lake.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def listens(process: "subprocess.Popen[str]") -> None:
    """Wait until it has imported everything."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def let_go(process: "subprocess.Popen[str]") -> None:
    """Send the line."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
