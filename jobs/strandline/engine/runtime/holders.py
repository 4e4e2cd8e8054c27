"""The process that holds something, recorded with its start so that a later process with the same pid differs.

Why not the pid alone: in a container every program has one of the first few pids, so after a restart a recorded pid
exists again and belongs to another process. The start is recorded in ticks since the machine started, which no
correction of the clock changes.

Locks are record locks (``lockf``), because the JVM takes such ones (jobs/strandline/engine/storage/locks.py).
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from strandline.engine.runtime.processes import has_ended

STARTED_AT = 19
"""The field of /proc/PID/stat, counted after the program's name, which may contain spaces."""


def own() -> dict[str, Any]:
    """Return the record of this process."""
    pid = os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "started": started(pid)}


def started(pid: int) -> float | None:
    """Return the start of a process, as a number for comparisons only; None when it is gone."""
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
    """Return whether a recorded process still runs; None when it runs on another host."""
    if holder.get("host") != socket.gethostname():
        return None
    pid = int(holder["pid"])
    if has_ended(pid):
        return False
    if holder.get("started") is None:  # recorded by a version without this field
        return None
    return bool(started(pid) == holder["started"])
