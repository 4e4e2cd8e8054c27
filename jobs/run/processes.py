"""Start a program that outlives us, recognise it later, and stop it, and never another's.

Why a mark and not a pid: pids are used again within hours, and a creation time shifts when the clock is
corrected, after which we would disown our own broker. An argument on the program's own command line, which
nobody else has a reason to write, proves it both ways. It also finds a program whose starter was killed before it
could write down the pid, and one whose notes were deleted under it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

# Enough to run a JVM, and nothing of the caller's: an option in the caller's JAVA_TOOL_OPTIONS would otherwise
# work until the day somebody else starts the broker. UTF-8, because folders have names in every language.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
ENTER_AND_BECOME = 'cd -- "$0" && exec "$@"'
EVERY = 0.02
ENDING = 2.0


def spawn(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> int:
    """Start a program in a folder and a session of its own, its words appended to a log.

    ``subprocess.Popen`` would warn, when it is thrown away, that its child still runs; here it should.
    """
    # The child's folder is entered by the shell, which then becomes the program and keeps its pid.
    shell = ["/bin/sh", "-c", ENTER_AND_BECOME, str(folder), *command]
    return os.posix_spawn(
        shell[0],
        shell,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        # Python ignores SIGPIPE, and what is ignored stays ignored in a child.
        setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
    )


def run(command: Sequence[str], *, folder: Path) -> tuple[bool, str]:
    """Run a program to its end and return whether it succeeded, and its words."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode == 0, done.stdout


def is_ours(pid: int, mark: str) -> bool:
    """Tell whether a process has the mark as one of its arguments, and has not ended.

    One that is ending loses its arguments first and closes its files last. It is waited for, because its
    successor needs the port and the lock that are among those files.
    """
    deadline = time.monotonic() + ENDING
    while True:
        _reap(pid)
        arguments = _arguments(pid)
        if arguments or has_ended(pid) or time.monotonic() > deadline:
            return mark in arguments
        time.sleep(EVERY)


def find(mark: str) -> int | None:
    """Return a process that has the mark as one of its arguments."""
    return next((pid for pid in psutil.pids() if mark in _arguments(pid)), None)


def stop(pid: int, mark: str, *, patience: float) -> bool:
    """Ask the marked process to end, insist after a while, and tell whether it was there to be stopped."""
    if not _send(signal.SIGTERM, pid, mark):
        return False
    if not _gone_within(patience, pid, mark):
        _send(signal.SIGKILL, pid, mark)
        _gone_within(patience, pid, mark)
    return True


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its children; nothing when it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _send(number: signal.Signals, pid: int, mark: str) -> bool:
    if not is_ours(pid, mark):
        return False
    with suppress(ProcessLookupError):  # it ended between the look and the signal
        os.kill(pid, number)
    return True


def _gone_within(seconds: float, pid: int, mark: str) -> bool:
    deadline = time.monotonic() + seconds
    while is_ours(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(EVERY)
    return True


def _arguments(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:  # gone, a zombie, or another user's
        return []


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone, or is only waiting for its parent to ask for it."""
    _reap(pid)
    try:
        process = psutil.Process(pid)
        # A zombie that still has other threads holds their files open.
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.Error:
        return True


def _reap(pid: int) -> None:
    # A child of ours that ended stays a zombie until it is asked for; somebody else's child is not ours to ask.
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
