"""The rows with which a small batch is judged: its own, and those of the batches before it.

A stream that cuts a bad hour into batches of ten must be stopped, although each of them proves little. So a batch of
fewer than a hundred rows is judged together with the batches before it, the newest first, until there are a hundred
rows.

Two things must not follow from that, and did: a batch of 60 rows, 30 of them bad, passed a limit of a fifth.

* Rows from before a rule was written, or changed, say nothing about it. An entry carries the fingerprint of the rules
  by which it was judged, and only batches with today's are counted.
* Good rows of an hour ago must not hide bad ones of now. So the batch is judged by itself as well, where more than
  ``FEW`` of its own rows break something: that many prove something without any neighbour.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from jobs.run.ledger import commit_file, entry_of, is_table, latest_version
from quality.expectations import UNREAD, Finding
from quality.rules import FEW

TOGETHER = 100
"""Rows that are judged together, where a batch has fewer."""

LOOKED_BACK = 1_000
"""Commits among which they are looked for, so that a start costs the same after a year."""


@dataclass(slots=True)
class Judged:
    """A batch, or several, by what their rows break.

    Args:
        good: Believed rows.
        held: The others, by the reason that they are accounted under.
        broke: Rows by every rule or reason that they break.
        newest: The newest event time among the believed ones.
    """

    good: int = 0
    held: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.good + self.held.total()


class Recent:
    """The last batches of a table that were believed, as many as a small one is judged with."""

    def __init__(self) -> None:
        """Begin with none."""
        self._batches = deque[Judged]()

    @classmethod
    def of(cls, path: Path, rules: str) -> "Recent":
        """Read them from the ledger, so that a new process forgives nothing.

        Args:
            path: The table.
            rules: Fingerprint of today's rules; who was judged by others ends the search.
        """
        recent = cls()
        newest = latest_version(path) if is_table(path) else -1
        for version in range(newest, max(-1, newest - LOOKED_BACK), -1):
            file = commit_file(path, version)
            entry = entry_of(file) if file.exists() else None
            if entry is None or entry.is_backfill or entry.opened or not entry.read:
                continue
            if entry.replaced or entry.rules != rules or recent._rows >= TOGETHER:
                break
            held, broke = Counter(entry.quarantined), Counter(entry.broke)
            recent._batches.appendleft(Judged(good=entry.good, held=held, broke=broke))
        return recent

    def add(self, batch: Judged) -> None:
        """Take in a batch that was believed, and leave those that no small one needs any more."""
        self._batches.append(batch)
        while self._rows - self._batches[0].rows >= TOGETHER:
            self._batches.popleft()

    def with_(self, batch: Judged) -> Judged | None:
        """Return a small batch together with those before it; None when it is judged by itself alone."""
        if batch.rows >= TOGETHER or not self._batches:
            return None
        pool = Judged()
        for each in (*self._batches, batch):
            pool.good += each.good
            pool.held += each.held
            pool.broke += each.broke
        return pool

    @property
    def _rows(self) -> int:
        return sum(each.rows for each in self._batches)


def proves(finding: Finding, batch: Judged) -> bool:
    """Tell whether a batch alone has enough bad rows for a finding; half of a batch of two proves nothing."""
    unread = sum(batch.broke[why] for why in UNREAD)
    return (unread if finding.name == "unread" else finding.failed) > FEW
