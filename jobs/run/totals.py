"""How many rows a table had after each of its versions, counted from its ledger as its readers count them."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from jobs.run.ledger import entries


@dataclass(frozen=True, slots=True)
class Totals:
    """How many rows a source had after each of its versions."""

    versions: list[int]
    totals: list[int]

    @classmethod
    def all(cls, path: Path) -> "Totals":
        """Count as a reader of the whole table does."""
        there = list(entries(path))
        totals = accumulate(
            (entry for _, entry in there),
            lambda total, entry: entry.written + (0 if entry.replaced else total),
            initial=0,
        )
        return cls([version for version, _ in there], list(totals))

    @classmethod
    def appended(cls, path: Path) -> "Totals":
        """Count as a stream does, which passes over what a backfill changed."""
        there = list(entries(path))
        totals = accumulate((entry.appended for _, entry in there), initial=0)
        return cls([version for version, _ in there], list(totals))

    @classmethod
    def standing(cls, path: Path, begun: int) -> "Totals":
        """Count as a stream does that began with the table as it stood at a version."""
        appended = cls.appended(path)
        more = cls.all(path).up_to(begun) - appended.up_to(begun)
        return cls(appended.versions, [total + more for total in appended.totals])

    @property
    def total(self) -> int:
        """Return how many it has now."""
        return self.totals[-1]

    def up_to(self, version: int) -> int:
        """Return how many it had at a version."""
        return self.totals[bisect_right(self.versions, version)]
