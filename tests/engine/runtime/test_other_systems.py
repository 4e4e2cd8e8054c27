"""What only Linux has is done in another way elsewhere, or left out: each test takes it away from the system that runs it."""

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strandline.engine.lake import local_files, locks
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import has_ended

TIED = """
import os, sys, time
del os.pidfd_open
from strandline.engine.runtime.processes import end_with_starter
end_with_starter()
print("tied", flush=True)
time.sleep(600)
"""
STARTER = f"""
import subprocess, sys, time
from strandline.engine.runtime.processes import tied
print(subprocess.Popen([sys.executable, "-c", {TIED!r}], env=dict(tied())).pid, flush=True)
time.sleep(600)
"""
ON_MACOS = """
import sys
import psutil, pyspark  # made for the system that this one is
sys.platform = "darwin"
from strandline.engine.runtime.spark_session import MOST
print(MOST)
"""


@pytest.mark.whole
def test_a_program_ends_with_its_starter_without_a_descriptor_of_a_process() -> None:
    """``os.pidfd_open`` is Linux's: the thread that watches ended with an AttributeError, and the program ran on for ever."""
    words = [sys.executable, "-c", STARTER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, _ = int(process.stdout.readline()), process.stdout.readline()  # it watches by now

        process.kill()
        process.wait()

        while not has_ended(pid):  # the limit of a test ends one that hangs
            time.sleep(0.01)


@pytest.mark.whole
def test_no_more_files_are_asked_for_than_the_kernel_of_macos_grants() -> None:
    """It says that there is no limit, and refuses what is above OPEN_MAX."""
    done = subprocess.run(
        [sys.executable, "-c", ON_MACOS], capture_output=True, text=True, check=True
    )

    assert int(done.stdout) == 10_240


def test_the_process_with_a_lock_is_asked_for_where_the_answer_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fields of the answer are in another order elsewhere: a number of bytes would be named as the process to kill."""
    lease = tmp_path / "lease"
    lease.touch()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: pytest.fail("asked in Linux's words"))

    assert locks._locker(Place.of(lease)) is None


@pytest.mark.parametrize("refusal", [None, errno.ENOTSUP])
def test_a_file_is_brought_past_the_memory_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None
) -> None:
    """What macOS calls ``fsync`` is not what a power cut asks for; a network folder has only that."""
    done: list[str] = []

    def asked(_: int, command: int) -> None:
        assert command == 51
        if refusal is not None:
            raise OSError(refusal, "refused")
        done.append("all the way")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", asked)
    monkeypatch.setattr(os, "fsync", lambda _: done.append("fsync"))

    local_files.sync(tmp_path)

    assert done == (["all the way"] if refusal is None else ["fsync"])
