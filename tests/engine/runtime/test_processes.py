"""Who is stopped takes along what it has started, suspended or deaf; a program that should outlive its starter is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from strandline.engine.runtime import processes

CHILD = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); print('there', flush=True); time.sleep(600)"
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def started(folder: Path, mark: str) -> tuple[int, psutil.Process]:
    """Start a program with a child in a session of its own, as Python starts its JVM; return both."""
    log = folder / "log"
    pid = processes.spawn([sys.executable, "-X", mark, "-c", PARENT], folder=folder, log=log)
    while not log.exists() or not log.read_text().endswith("\n"):
        assert processes.is_ours(pid, mark), log.read_text()
    return pid, psutil.Process(int(log.read_text()))


@pytest.mark.parametrize("is_suspended", [False, True])
def test_what_it_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_suspended: bool
) -> None:
    """A suspended JVM kept the leases of all tables after its Python had been killed."""
    monkeypatch.setattr(processes, "LEAVING", 0.2)
    mark = f"test-mark={tmp_path}"
    pid, child = started(tmp_path, mark)
    if is_suspended:
        for each in (child.pid, pid):
            os.kill(each, signal.SIGSTOP)

    assert processes.stop(pid, mark, patience=5, descendants=True)

    assert not processes.is_ours(pid, mark)
    assert processes.has_ended(child.pid)


def test_what_should_outlive_it_is_left(tmp_path: Path) -> None:
    mark = f"test-mark={tmp_path}"
    pid, child = started(tmp_path, mark)
    try:
        assert processes.stop(pid, mark, patience=5)
        assert not processes.has_ended(child.pid)
    finally:
        child.kill()


SLEEPS = "import time; print('there', flush=True); time.sleep(600)"
GROUP = "autogroup"
has_groups = pytest.mark.skipif(
    not Path("/proc/self", GROUP).exists(), reason="this kernel groups no sessions"
)


@contextmanager
def slept(*, own_session: bool) -> Iterator[int]:
    """Start a program that waits, and end it."""
    words = [sys.executable, "-c", SLEEPS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=own_session) as found:
        assert found.stdout is not None
        found.stdout.readline()
        yield found.pid
        found.kill()


def group_of(pid: int) -> list[str]:
    """Return the group of a process, and the value of that group.

    A container's first process, and what it starts without a session, is in no group: the file is empty.
    """
    return Path(f"/proc/{pid}/{GROUP}").read_text().split()


@has_groups
def test_a_program_with_a_session_of_its_own_gives_way_as_a_group() -> None:
    """Its nice value alone counts only beside others of its session, of which there are none."""
    with slept(own_session=True) as pid:
        processes.let_give_way(pid)

        assert group_of(pid)[-1] == str(processes.NICE)
        assert os.getpriority(os.PRIO_PROCESS, pid) == processes.NICE


@has_groups
def test_one_that_is_typed_leaves_the_group_of_its_terminal_alone() -> None:
    """What is typed there afterwards would be slow."""
    before = group_of(os.getpid())
    with slept(own_session=False) as pid:
        processes.let_give_way(pid)

        assert group_of(pid) == before
        assert os.getpriority(os.PRIO_PROCESS, pid) == processes.NICE


def test_one_that_is_gone_gives_way_without_an_error() -> None:
    with slept(own_session=True) as pid:
        pass

    processes.let_give_way(pid)


def test_a_port_that_is_given_away_already_is_not_given_twice() -> None:
    """A broker has two, and the system may name one that nothing has taken yet for both."""
    wanted = processes.free(0)

    assert processes.free(wanted) == wanted
    assert processes.free(wanted, but=wanted) != wanted


def test_the_age_of_a_process_is_of_no_clock_that_is_set() -> None:
    """Beside what psutil computes by the clock of the machine, which is right here."""
    assert processes.age() == pytest.approx(time.time() - psutil.Process().create_time(), abs=3)
