"""An index of a table's files by window, which spares a query of Delta's log at every batch.

Delta finds the files of a window by reading the whole log with a Spark job: in a batch of 100 rows that took 1.2 s,
it took 0.6 s. A table has one writer, so the writer can remember which files it wrote; the commits of others are read
from the log. The newest windows are in memory (jobs/strandline/engine/storage/recent_files.py).
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from strandline.core.moment import in_utc
from strandline.engine.storage.delta_commit import Commit, Written
from strandline.engine.storage.recent_files import KEPT, RecentFiles

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
