"""Logs that programs append to for months: bounded while they are written, and read from their end.

A program that outlives its starter writes to a file that it does not open itself, so nothing can be renamed under it.
What it appends goes to the end of the file, wherever that is: so the file is copied and then cut, and the program
writes on. Of each log there are at most two files of this size.
"""

import os
import shutil
from pathlib import Path

MOST = 20_000_000
"""Bytes; as much as Spark's own log has in one file (infra/spark/log4j2.properties)."""

END = 65_536
"""Bytes from the end in which last words are looked for."""


def bound(log: Path, most: int = MOST) -> bool:
    """Cut a log that has grown too long, keep what it said beside it, and tell whether that was done."""
    if not log.exists() or log.stat().st_size <= most:
        return False
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return True


def add(log: Path, line: str, most: int = MOST) -> None:
    """Append a line to a log that nobody keeps open."""
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
    whole = found[1:] if start else found  # the first one begins somewhere
    return [line.strip() for line in whole if line.strip()][-count:]
