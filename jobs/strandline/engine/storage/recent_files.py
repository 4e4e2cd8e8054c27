"""The files of a table by the time of their rows: the newest in memory, older ones looked up in the log on request.

A stream asks at every batch which files hold rows of the batch's time, and Delta answers with a Spark job over the whole
log (0.6 s of a batch of 1.2 s). So the lines of the log are kept in memory, and each new version adds its own. A table
gets files for years, and a batch asks for the newest; so only as many stay in memory as a batch can ask for. Which
commits were forgotten is one number: the last time that a forgotten file reaches. A question that begins before it reads
the log again, as it takes Delta the first time.

A file whose rows are valid until further notice is never forgotten: it is in the answer to every question.

Every version is followed by what it added and removed, by any writer and for any reason: a compaction replaces files
here as a batch does.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from strandline.engine.storage.commit_log import Kind, actions, added_file
from strandline.engine.storage.place import Place
from strandline.engine.storage.read_version import OPEN

KEPT = 4_000
"""Files that stay in memory at least, each with a line of about a kilobyte; twice as many before some are forgotten."""

FOLLOWED = 500
"""Commits that are read one by one, some tenths of a millisecond each; of more the log is read by a Spark job."""

Span = Callable[[Mapping[str, Any]], tuple[int, int]]
"""Returns the time range of the rows of a file, in microseconds, given its ``add`` action."""

ReadAll = Callable[[int], Iterator[str]]
"""Yields every file of a version as its line in the log."""


class Recent(NamedTuple):
    """A file as its line in the log, and the time range of its rows."""

    line: str
    first: int
    last: int

    def reaches(self, first: int, last: int) -> bool:
        """Return whether it may have rows of a range."""
        return self.first <= last and self.last >= first


class RecentFiles:
    """The files of one table; one object for the life of a run."""

    def __init__(self, path: Place, span: Span, *, kept: int = KEPT) -> None:
        """Begin empty; the first question reads the log."""
        self._path = path
        self._span = span
        self._kept = kept
        self._files: dict[str, Recent] = {}
        self._begun: dict[int, set[str]] = {}
        """The names of those files by the time at which their rows begin."""
        self._version = -1
        self._forgotten = -OPEN
        """The last time that a file reaches which is not in memory."""
        self.is_shaped = False
        """Whether the columns or properties may have changed; the reader that acts on it resets it."""

    @property
    def version(self) -> int:
        """Return the version up to which it follows the table."""
        return self._version

    def within(self, version: int, first: int, last: int, read_all: ReadAll) -> list[Recent]:
        """Return the files of a version that may have rows of a range."""
        self.follow(version, read_all)
        found = [file for file in self._files.values() if file.reaches(first, last)]
        if first <= self._forgotten:
            found += [
                file
                for name, file in self._read(read_all(version))
                if name not in self._files and file.reaches(first, last)
            ]
        return found

    def beginning(self, version: int, firsts: Collection[int], read_all: ReadAll) -> list[Recent]:
        """Return the files of a version whose rows begin at one of these times."""
        self.follow(version, read_all)
        names = [name for first in sorted(firsts) for name in self._begun.get(first, ())]
        found = [self._files[name] for name in names]
        if firsts and min(firsts) <= self._forgotten:
            found += [
                file
                for name, file in self._read(read_all(version))
                if file.first in firsts and name not in self._files
            ]
        return found

    def follow(self, version: int, read_all: ReadAll) -> None:
        """Read what came after the version that is known; all of it when that is much, older, or not in the log."""
        if version == self._version:
            return
        if not self._version < version <= self._version + FOLLOWED:
            self._begin(version, read_all)
            return
        try:
            for number in range(self._version + 1, version + 1):
                self._apply(number)
        except (FileNotFoundError, KeyError):
            # The log was cut, or older files are partitioned otherwise.
            self._begin(version, read_all)

    def committed(self, version: int, firsts: Collection[int], came: Iterable[str]) -> None:
        """Take over this process's own commit, which replaced all files that begin at some times.

        Unless all commits before it are known: then it is read from the log like those of others.
        """
        if version != self._version + 1:
            return
        for name in [name for first in firsts for name in self._begun.get(first, ())]:
            self._drop(name)
        for name, file in self._read(came):
            self._put(name, file)
        self._version = version
        self._forget()

    def _apply(self, version: int) -> None:
        came = []
        for action in actions(self._path, version, Kind.ADD, Kind.REMOVE, Kind.METADATA):
            match action.kind:
                case Kind.ADD:
                    came.append(action.line)
                case Kind.REMOVE:
                    self._drop(action.body["path"])
                case _:
                    self.is_shaped = True
        for name, file in self._read(came):
            self._put(name, file)
        self._version = version
        self._forget()

    def _begin(self, version: int, read_all: ReadAll) -> None:
        """Read all files once, and keep the newest."""
        self._files, self._begun = {}, {}
        self._forgotten, self.is_shaped = -OPEN, True
        for name, file in self._read(read_all(version)):
            self._put(name, file)
            self._forget()
        self._version = version

    def _put(self, name: str, file: Recent) -> None:
        self._drop(name)
        self._files[name] = file
        self._begun.setdefault(file.first, set()).add(name)

    def _drop(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is None:
            return
        names = self._begun[file.first]
        names.discard(name)
        if not names:
            del self._begun[file.first]

    def _read(self, lines: Iterable[str]) -> Iterator[tuple[str, Recent]]:
        for line in lines:
            add = added_file(line)
            yield add["path"], Recent(line, *self._span(add))

    def _forget(self) -> None:
        """Forget those that end first, half of them at once, so that it costs nothing a file."""
        if len(self._files) <= 2 * self._kept:
            return
        ended = [(file.last, name) for name, file in self._files.items() if file.last < OPEN]
        for last, name in heapq.nsmallest(len(self._files) - self._kept, ended):
            self._drop(name)
            self._forgotten = max(self._forgotten, last)
