"""An index of a table's files by event time, updated commit by commit.

Delta lists the log and rebuilds the table's whole state for each new version, so a look-up costs more the more files
there are. This index is kept for the life of a run and reads only the new commits; of a table with many files it keeps
the newest.
"""

import heapq
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.kind import in_utc
from strandline.core.table import Computed
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.delta_commit import OPEN, Commit, Written
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, added_file
from strandline.engine.lake.place import Place

# The files of a table by the time of their rows: the newest in memory, older ones looked up in the log on request.
#
# A stream asks at every batch which files hold rows of the batch's time, and Delta answers with a Spark job over the whole
# log (0.6 s of a batch of 1.2 s). So the lines of the log are kept in memory, and each new version adds its own. A table
# gets files for years, and a batch asks for the newest; so only as many stay in memory as a batch can ask for. Which
# commits were forgotten is one number: the last time that a forgotten file reaches. A question that begins before it reads
# the log again, as it takes Delta the first time.
#
# A file whose rows are valid until further notice is never forgotten: it is in the answer to every question.
#
# Every version is followed by what it added and removed, by any writer and for any reason: a compaction replaces files
# here as a batch does.


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
        if self._forgotten > -OPEN and first <= self._forgotten:
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

    def newest(self, version: int, read_all: ReadAll) -> int | None:
        """Return the last time that a file of a version reaches, of those whose statistics have it; None where none has.

        The newest files are forgotten last, so those in memory have it, unless all that are as new went since.
        """
        self.follow(version, read_all)
        last = self._last()
        if self._forgotten > -OPEN and (last is None or last <= self._forgotten):
            self._begin(version, read_all)
            last = self._last()
        return last

    def _last(self) -> int | None:
        return max((each.last for each in self._files.values() if each.last < OPEN), default=None)

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


# An index of a table's files by window, which spares a query of Delta's log at every batch.
#
# Delta finds the files of a window by reading the whole log with a Spark job: in a batch of 100 rows that took 1.2 s,
# it took 0.6 s. A table has one writer, so the writer can remember which files it wrote; the commits of others are read
# from the log. The newest windows are in memory.


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class WindowIndex:
    """The files of a table that is partitioned by the start of its windows."""

    def __init__(self, column: str, *, kept: int = KEPT) -> None:
        """Begin empty; the first look-up reads the table.

        Args:
            column: The partition column, a timestamp.
            kept: How many files stay in memory at least.
        """
        self._column = column
        self._kept = kept
        self._files: RecentFiles | None = None

    def holding(self, commit: Commit, starts: Collection[int]) -> list[str]:
        """Return the files of the windows with these starts, in microseconds since 1970."""
        files = self._known(commit)
        wanted = set(starts)
        found = files.beginning(commit.read_version, wanted, lambda _: commit.files())
        return [file.line for file in found]

    def between(self, commit: Commit, lowest: int, highest: int) -> list[int]:
        """Return the starts of all windows that start in a range of microseconds."""
        files = self._known(commit)
        found = files.within(commit.read_version, lowest, highest, lambda _: commit.files())
        return sorted({file.first for file in found})

    def replaced(self, version: int, starts: Collection[int], written: Written) -> None:
        """Record that a commit replaced all files of these windows."""
        if self._files is not None:
            self._files.committed(version, starts, written.files)

    def _known(self, commit: Commit) -> RecentFiles:
        if self._files is None:
            self._files = RecentFiles(commit.path, self._span, kept=self._kept)
        return self._files

    def _span(self, add: Mapping[str, Any]) -> tuple[int, int]:
        start = micros(add["partitionValues"][self._column])
        return start, start


def micros(text: str) -> int:
    """Parse a time of the log, in UTC unless it names a zone; Delta writes it in the session's zone, which is UTC."""
    return (in_utc(datetime.fromisoformat(text)) - EPOCH) // MICROSECOND


MILLISECOND = 1_000
"""In microseconds; Delta truncates the times in its statistics to it."""


class FileIndex:
    """The files of a growing table; one for the life of a run."""

    def __init__(
        self, spark: SparkSession, path: Place, begins: str, ends: str | None, *, kept: int = KEPT
    ) -> None:
        """Begin empty; the first look-up reads the log.

        Args:
            spark: The session.
            path: The table.
            begins: The column with the start of a row's validity.
            ends: The column with its end, open when NULL; without one, a row is valid at its start only.
            kept: How many files stay in memory at least.
        """
        self._spark = spark
        self._path = path
        self._begins = begins
        self._files = RecentFiles(path, partial(span_of, begins=begins, ends=ends), kept=kept)

    @classmethod
    def of(cls, spark: SparkSession, table: Computed, lake: Lake) -> "FileIndex":
        """Return the index of a table by the validity that its declaration names."""
        return cls(spark, lake.table(table), table.event_at, table.valid_until)

    def files(self, version: int, first: int = -OPEN, last: int = OPEN) -> list[str]:
        """Return the files of a version that may hold rows valid in a range, each as its line in the log."""
        read_all = partial(delta_commit.files_at, self._spark, self._path)
        return [each.line for each in self._files.within(version, first, last, read_all)]

    def newest(self, version: int) -> int | None:
        """Return the newest time of a row of a version, cut to milliseconds; None without one."""
        read_all = partial(delta_commit.files_at, self._spark, self._path)
        last = self._files.newest(version, read_all)
        known = [] if last is None else [last - MILLISECOND]
        if any(self._files.within(version, OPEN, OPEN, read_all)):  # their statistics lack it
            at = F.max(F.unix_micros(self._begins))
            known += [each for (each,) in self.rows(version, OPEN, OPEN).agg(at).collect() if each]
        return max(known) // MILLISECOND * MILLISECOND if known else None

    def rows(self, version: int, first: int = -OPEN, last: int = OPEN) -> DataFrame:
        """Return all rows of those files; the caller filters them."""
        found = self.files(version, first, last)
        is_other, self._files.is_shaped = self._files.is_shaped, False
        return delta_commit.rows_of(self._spark, self._path, found, is_other=is_other)


def span_of(add: Mapping[str, Any], begins: str, ends: str | None = None) -> tuple[int, int]:
    """Return the range in which the rows of a file are valid, in microseconds; unbounded without statistics.

    Args:
        add: The file, as in the log.
        begins: The column with the start of a row's validity.
        ends: The column with its end.
    """
    stats = json.loads(add.get("stats") or "{}")
    lowest, highest = (
        {**stats.get(name, {}), **add["partitionValues"]} for name in ("minValues", "maxValues")
    )
    first = micros(lowest[begins]) if begins in lowest else -OPEN
    if ends is None:
        return first, _until(highest, begins)
    is_open = stats.get("nullCount", {}).get(ends, 1) > 0
    return first, OPEN if is_open else _until(highest, ends)


def _until(highest: Mapping[str, str], name: str) -> int:
    return micros(highest[name]) + MILLISECOND if name in highest else OPEN
