"""A scratch folder goes with its block, and with the next one when its maker was killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import MAKER, abandoned, scratch
from strandline.engine.runtime.processes import own
from tests.architecture.tree import ROOT

MAKE = """
import sys, time
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
with scratch(Place.of(sys.argv[1])) as made:
    (made / "log").make()
    print(made.name, flush=True)
    time.sleep(600)
"""

WRITE = """
import fcntl, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def within(tmp_path: Path) -> Place:
    """Return the folder for scratch lakes."""
    return Place.of(tmp_path / "_verify")


def killed(within: Place) -> Place:
    """Leave a folder by a kill of its maker, which another sees alive before."""
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(within)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout
    with maker.stdout as said:
        left = within / said.readline().strip()
        assert abandoned(within) == []
        maker.send_signal(signal.SIGKILL)
        maker.wait()
    return left


@pytest.mark.whole
def test_what_a_killed_one_left_goes_when_the_next_begins(within: Place) -> None:
    left = killed(within)
    assert abandoned(within) == [left]

    with scratch(within) as made:
        assert within.names() == [made.name]
    assert within.names() == []


@pytest.mark.whole
def test_a_folder_in_which_a_program_still_writes_stays(within: Place) -> None:
    """The stream of a killed verification is a process of its own, and outlives it by some batches."""
    left = killed(within)
    lock = (left / "stream" / "_leases").make() / "silver.x.writer.lock"
    program = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout
    with program.stdout as said:
        assert said.readline()
        assert abandoned(within) == []
        program.kill()
        program.wait()

    assert abandoned(within) == [left]


@pytest.mark.parametrize(
    "record",
    [None, "{", "{}", json.dumps({**own(), "host": "elsewhere", "pid": 1, "started": 1.0})],
)
def test_a_folder_of_an_unknown_maker_stays(within: Place, record: str | None) -> None:
    """It waits for its day (jobs/strandline/engine/service/maintain.py)."""
    folder = (within / "strandline-x").make()
    if record is not None:
        (folder / MAKER).put(record)

    assert abandoned(within) == []


def test_the_maker_is_recorded_where_others_look(within: Place) -> None:
    with scratch(within) as made:
        assert json.loads((made / MAKER).text() or "") == own()
