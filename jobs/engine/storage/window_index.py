"""An index of a table's files by window, which spares a query of Delta's log at every batch.

Delta finds the files of a window by reading the whole log with a Spark job: in a batch of 100 rows that took 1.2 s,
it took 0.6 s. A table has one writer, so the writer can remember which files it wrote. When the table is at another
version than the index, the index is read from Delta again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from jobs.core.moment import in_utc
from jobs.engine.storage.commit_log import added_file
from jobs.engine.storage.delta_commit import Commit, Written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class WindowIndex:
    """The files of a table that is partitioned by the start of its windows."""

    def __init__(self, column: str) -> None:
        """Begin empty; the first look-up reads the table.

        Args:
            column: The partition column, a timestamp.
        """
        self._column = column
        self._version: int | None = None
        self._files: dict[int, list[str]] = {}

    def holding(self, commit: Commit, starts: Collection[int]) -> list[str]:
        """Return the files of the windows with these starts, in microseconds since 1970."""
        self._look(commit)
        return [file for start in sorted(starts) for file in self._files.get(start, ())]

    def between(self, commit: Commit, lowest: int, highest: int) -> list[int]:
        """Return the starts of all windows that start in a range of microseconds."""
        self._look(commit)
        return sorted(start for start in self._files if lowest <= start <= highest)

    def replaced(self, version: int, starts: Collection[int], written: Written) -> None:
        """Record that a commit replaced all files of these windows.

        The index is dropped unless it is exactly one version behind.
        """
        if self._version != version - 1:
            self._version = None
            return
        for start in starts:
            self._files.pop(start, None)
        self._files |= self._by_start(written.files)
        self._version = version

    def _look(self, commit: Commit) -> None:
        if self._version != commit.read_version:
            self._files = self._by_start(commit.files())
            self._version = commit.read_version

    def _by_start(self, files: Iterable[str]) -> dict[int, list[str]]:
        found = defaultdict(list)
        for file in files:
            text = added_file(file)["partitionValues"][self._column]
            found[micros(text)].append(file)
        return dict(found)


def micros(text: str) -> int:
    """Parse a time of the log, in UTC unless it names a zone; Delta writes it in the session's zone, which is UTC."""
    return (in_utc(datetime.fromisoformat(text)) - EPOCH) // MICROSECOND
