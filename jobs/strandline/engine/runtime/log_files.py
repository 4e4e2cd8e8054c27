"""Logs that programs append to for months: bounded while they are written, and read from their end.

A program that outlives its starter writes to a file that its starter opened, so the log cannot be rotated by renaming.
It appends at the end of the file, wherever that is: the file is copied and then truncated, and the program goes on
writing. Each log has at most two files of this size.
Several programs may look after one log (a broker's, by the stream and by `strandline ui`): the one that has the lock of
the file copies it, or the second would copy the truncated file over the copy of the first.

No reader holds a log in memory: it steps back from the end, block by block, to the line at which it begins, and from
there reads forward (jobs/strandline/engine/runtime/log_reader.py).
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

MOST = 20_000_000
"""Bytes; as much as Spark's own log has in one file (infra/strandline_infra/spark/log4j2.properties)."""

BLOCK = 65_536
"""Bytes that are read at once."""

LONGEST = 1_000_000
"""Bytes; a longer line is read in pieces."""


def bound(log: Path, most: int = MOST) -> bool:
    """Truncate a log that has grown too long, keep a copy beside it, and return whether that was done."""
    if not log.exists() or log.stat().st_size <= most:
        return False
    with log.open("rb") as old:
        try:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.fstat(old.fileno()).st_size <= most:
            return False
        with earlier(log).open("wb") as copy:
            shutil.copyfileobj(old, copy)
            shutil.copyfileobj(old, copy)  # what another process appended during the long copy
        os.truncate(log, 0)
    return True


def earlier(log: Path) -> Path:
    """Return the file with the copy of the earlier lines of a log."""
    return log.with_name(f"{log.name}.1")


def names(folder: Path) -> list[str]:
    """Return the names of the logs in a folder."""
    return sorted(path.stem for path in folder.glob("*.log"))


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
        lines = (text(line).strip() for _, line in backwards(file, file.seek(0, os.SEEK_END)))
        return list(islice(filter(None, lines), count))[::-1]


def backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line before a position with its offset, the last one first."""
    rest, is_last = b"", True
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        block = file.read(end - start)
        if is_last and block.endswith(b"\n"):
            block = block[:-1]
        rest, is_last, end = block + rest, False, start
        at = start + len(rest)
        first, *whole = rest.split(b"\n")
        for line in reversed(whole):
            at -= len(line)
            yield at, line
            at -= 1
        rest = first
        if start == 0 or len(rest) > LONGEST:
            yield start, rest
            rest = b""


def forwards(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yield each line between two positions."""
    file.seek(start)
    while start < end and (line := file.readline(min(LONGEST, end - start))):
        start += len(line)
        yield line.removesuffix(b"\n")


def text(line: bytes) -> str:
    """Return a line as text, whatever a program wrote into it."""
    return line.decode(errors="replace")
