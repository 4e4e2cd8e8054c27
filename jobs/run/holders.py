"""Who holds something: a process, written down so that it can be told from one that has its number later.

Why not the number alone: in a container every program has one of the first few, so after a restart a number that was
written down is there again and means somebody else. Beside it stands when the process began, in ticks since the machine
started, which no correction of a clock moves.
"""

import fcntl
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import psutil

from jobs.run.processes import has_ended

STARTED_AT = 19
"""The field of /proc/PID/stat, counted from behind the program's name, which may hold blanks itself."""


def own() -> dict[str, Any]:
    """Return what is written down of this process."""
    pid = os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "started": started(pid)}


def started(pid: int) -> float | None:
    """Return when a process began, as a number that only ever is compared; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return float(stat.rpartition(")")[2].split()[STARTED_AT])
    except OSError:
        pass  # gone, or a system without such files
    try:
        return round(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def is_there(holder: Mapping[str, Any]) -> bool | None:
    """Tell whether the process that was written down still is; None where that cannot be seen from here."""
    if holder.get("host") != socket.gethostname():
        return None
    pid = int(holder["pid"])
    if has_ended(pid):
        return False
    if holder.get("started") is None:  # of a version that did not write it down
        return None
    return bool(started(pid) == holder["started"])


def is_held(path: Path) -> bool:
    """Tell whether another process has the lock of a file; locks do not travel with a copy of the file."""
    if not path.exists():
        return False
    with path.open("r+") as file:
        return not could_lock(file)


def could_lock(file: TextIO) -> bool:
    """Take the lock of an open file, if it is free, until the file is closed."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
