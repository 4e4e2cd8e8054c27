"""Which files hold which windows, known without asking Delta at every batch.

Delta answers "which files may hold these windows" by reading the whole log with a Spark job: of a batch of 100 rows
that took 1.2 s, the question alone took 0.6 s. There is one writer a table, so the writer may remember
what it wrote itself; when the table is at another version than it left it at, it asks Delta again.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from jobs.run.delta import Commit, Written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Shelf:
    """The files of a table that is partitioned by the start of its windows."""

    def __init__(self, column: str) -> None:
        """Know nothing yet.

        Args:
            column: The partition column, a timestamp.
        """
        self._column = column
        self._version: int | None = None
        self._files: dict[int, list[str]] = {}

    def holding(self, commit: Commit, starts: Collection[int]) -> list[str]:
        """Return the files with windows that start at these microseconds since 1970."""
        self._look(commit)
        return [file for start in sorted(starts) for file in self._files.get(start, ())]

    def between(self, commit: Commit, lowest: int, highest: int) -> list[int]:
        """Return the starts of all windows that the table holds from one microsecond to another."""
        self._look(commit)
        return sorted(start for start in self._files if lowest <= start <= highest)

    def replaced(self, version: int, starts: Collection[int], written: Written) -> None:
        """Remember that a commit put new files in the place of all that held these windows.

        Only on top of the version before it: one that never looked, or missed a commit, still knows nothing.
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
            text = json.loads(file)["add"]["partitionValues"][self._column]
            found[micros(text)].append(file)
        return dict(found)


def micros(text: str) -> int:
    """Read a time of the log, which Delta writes in the session's zone, UTC, or with a zone of its own."""
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND
