"""Logs that programs append to for months: bounded while they are written, and read from their end.

A program that outlives its starter writes to a file that its starter opened, so the log cannot be rotated by renaming.
It appends at the end of the file, wherever that is: the file is copied and then truncated, and the program goes on
writing. Each log has at most two files of this size.
"""

import os
import shutil
from pathlib import Path

MOST = 20_000_000
"""Bytes; as much as Spark's own log has in one file (infra/spark/log4j2.properties)."""

END = 65_536
"""Bytes from the end in which the last error is searched."""

LAST = 20
"""Lines from the end among which the last error is searched."""


def bound(log: Path, most: int = MOST) -> bool:
    """Truncate a log that has grown too long, keep a copy beside it, and return whether that was done."""
    if not log.exists() or log.stat().st_size <= most:
        return False
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return True


def add(log: Path, line: str, most: int = MOST) -> None:
    """Append a line to a log that no process keeps open."""
    bound(log, most)
    with log.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines that are not empty, without reading what comes before."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - END)
        file.seek(start)
        found = file.read(END).decode(errors="replace").splitlines()
    whole = found[1:] if start else found  # the first line may be cut
    return [line.strip() for line in whole if line.strip()][-count:]


def last_error(log: Path) -> str:
    """Return the last error in a log with the lines after it, or its last line."""
    lines = last_lines(log, LAST)
    errors = [number for number, line in enumerate(lines) if line.startswith("error")]
    return " ".join(lines[errors[-1] :]) if errors else lines[-1] if lines else "its log is empty"
