"""Read a log that a program still writes: its newest lines at once, then each further line as it comes.

A log that reaches its bound is copied and truncated (jobs/strandline/engine/runtime/log_files.py), or renamed and begun again, as
Spark does with its own. A reader notices both and first reads on in the earlier file.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from strandline.engine.runtime.log_files import BLOCK, LONGEST, backwards, earlier, forwards, text


class LogReader:
    """Reads the lines of one log in their order."""

    def __init__(self, log: Path) -> None:
        """Open a log that exists; what it has now is its newest lines, and the rest is read by ``more``."""
        self._log = log
        self._file = log.open("rb")
        self._at = self._file.seek(0, os.SEEK_END)
        self._unfinished = b""
        if self._at and not _ends_with_newline(self._file, self._at):
            begin, self._unfinished = next(backwards(self._file, self._at))
            self._whole = begin
        else:
            self._whole = self._at

    def newest(
        self,
        is_wanted: Callable[[str], bool],
        is_too_old: Callable[[str], bool],
        most: int | None = None,
    ) -> Iterator[str]:
        """Yield the newest whole lines that are wanted, the oldest of them first.

        Args:
            is_wanted: Whether a line is yielded.
            is_too_old: Whether this line and all before it are not wanted.
            most: How many lines at most; all when None.
        """
        with ExitStack() as opened:
            parts: list[tuple[BinaryIO, int]] = [(self._file, self._whole)]
            if earlier(self._log).exists():
                copy = opened.enter_context(earlier(self._log).open("rb"))
                parts.append((copy, copy.seek(0, os.SEEK_END)))
            spans: list[tuple[BinaryIO, int, int]] = []
            left = most
            for file, end in parts:
                begin, left = _begin(file, end, is_wanted, is_too_old, left)
                spans.append((file, begin, end))
                if left == 0:
                    break
            for file, begin, end in reversed(spans):
                yield from filter(is_wanted, map(text, forwards(file, begin, end)))

    def more(self) -> Iterator[str]:
        """Yield the whole lines that were written since the last call."""
        if os.fstat(self._file.fileno()).st_size < self._at:
            if earlier(self._log).exists():
                with earlier(self._log).open("rb") as copy:
                    yield from self._read(copy)
            self._at = 0
        yield from self._read(self._file)
        if self._is_renamed():
            self._file.close()
            self._file, self._at = self._log.open("rb"), 0
            yield from self._read(self._file)

    def unfinished(self) -> str:
        """Return what follows the last whole line."""
        return text(self._unfinished)

    def _read(self, file: BinaryIO) -> Iterator[str]:
        file.seek(self._at)
        while block := file.read(BLOCK):
            self._at += len(block)
            *lines, self._unfinished = (self._unfinished + block).split(b"\n")
            yield from map(text, lines)
            if len(self._unfinished) > LONGEST:
                yield self.unfinished()
                self._unfinished = b""

    def _is_renamed(self) -> bool:
        """Return whether the log's name has another file by now."""
        try:
            named = self._log.stat()
        except FileNotFoundError:
            return False
        return named.st_ino != os.fstat(self._file.fileno()).st_ino

    def close(self) -> None:
        """Close the log."""
        self._file.close()


def _begin(
    file: BinaryIO,
    end: int,
    is_wanted: Callable[[str], bool],
    is_too_old: Callable[[str], bool],
    most: int | None,
) -> tuple[int, int | None]:
    """Return where the wanted lines of a file begin, and how many are still wanted from the file before it."""
    begin, left = end, most
    for at, line in backwards(file, end):
        if left == 0 or is_too_old(text(line)):
            return begin, 0
        if is_wanted(text(line)):
            begin, left = at, None if left is None else left - 1
    return begin, left


def _ends_with_newline(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    return file.read(1) == b"\n"
