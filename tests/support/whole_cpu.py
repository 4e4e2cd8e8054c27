"""The CPU of a command and of all that it starts, as the kernel counts it, also of programs that outlive their starter.

``python -m tests.support.whole_cpu COMMAND …`` prints the seconds as the last line of its standard error, and exits as the command did:
``cpu`` of all, and ``threads`` of those that were seen, by the first letters of the names that the kernel has of them.

The kernel adds up what a process has used whose end was waited for. Programs whose starter has gone come to this one
(``PR_SET_CHILD_SUBREAPER``), so all are waited for: a JVM that ends after its Python, a broker in a session of its own.
It forgets what a thread has used that has ended, so threads are looked at all the time: of each what it had at the last look.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
EVERY = 0.1
"""Seconds between two looks."""
LETTERS = 7
"""The letters that all JVMs keep of a long name."""
PARENT, USER, SYSTEM, STARTED = 1, 11, 12, 19
"""Places of what the kernel says of a process or of a thread, after its name."""

OWN = "the program"
"""All threads of the command itself."""


def _stat(file: Path) -> tuple[str, list[str]]:
    begin, _, rest = file.read_text(errors="replace").rpartition(")")
    return begin.partition("(")[2], rest.split()


def _below(top: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that these have."""
    children = defaultdict(list)
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            children[int(_stat(each / "stat")[1][PARENT])].append(int(each.name))
    left = [*children[top]]
    while left:
        yield (pid := left.pop())
        left += children[pid]


class Threads(threading.Thread):
    """Looks at the threads of a command and of all that it has started, until it is asked to end."""

    def __init__(self, command: int) -> None:
        """Begin with none."""
        super().__init__(daemon=True)
        self._command = command
        self._used: dict[tuple[int, str, str], tuple[str, float]] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Look again and again."""
        tick = os.sysconf("SC_CLK_TCK")
        while not self._over.wait(EVERY):
            for pid in _below(os.getpid()):
                with suppress(OSError):  # it has ended
                    self._look(pid, tick)

    def _look(self, pid: int, tick: int) -> None:
        for each in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                name, values = _stat(each / "stat")
                used = (int(values[USER]) + int(values[SYSTEM])) / tick
                of = OWN if pid == self._command else name[:LETTERS]
                self._used[pid, each.name, values[STARTED]] = of, used

    def end(self) -> dict[str, float]:
        """Return what the threads have used, by their names."""
        self._over.set()
        self.join()
        found: dict[str, float] = defaultdict(float)
        for name, used in self._used.values():
            found[name] += used
        return {name: round(used, 2) for name, used in found.items() if used}


def main() -> int:
    """Run the command, wait for all that it has started, and print what that used."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = subprocess.Popen(sys.argv[1:])
    threads = Threads(command.pid)
    threads.start()
    code = command.wait()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"cpu": used.ru_utime + used.ru_stime, "threads": threads.end()}
    sys.stderr.write(json.dumps(found) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
