"""The number of rows in a table after each of its versions, from its ledger, as different readers count them."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from jobs.engine.storage.ledger import entries
from jobs.engine.storage.place import Place


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of rows in a source after each of its versions."""

    versions: list[int]
    totals: list[int]

    @classmethod
    def all(cls, path: Place) -> "Totals":
        """Count as a reader of the whole table does."""
        committed = list(entries(path))
        totals = accumulate(
            (entry for _, entry in committed),
            lambda total, entry: entry.written + (0 if entry.replaced else total),
            initial=0,
        )
        return cls([version for version, _ in committed], list(totals))

    @classmethod
    def appended(cls, path: Place) -> "Totals":
        """Count as a stream does, which skips the changes of backfills."""
        committed = list(entries(path))
        totals = accumulate((entry.appended for _, entry in committed), initial=0)
        return cls([version for version, _ in committed], list(totals))

    @classmethod
    def continued(cls, path: Place, begun: int) -> "Totals":
        """Count as a stream does that began with a snapshot of the table at a version."""
        appended = cls.appended(path)
        more = cls.all(path).up_to(begun) - appended.up_to(begun)
        return cls(appended.versions, [total + more for total in appended.totals])

    @property
    def total(self) -> int:
        """Return the number at the latest version."""
        return self.totals[-1]

    def up_to(self, version: int) -> int:
        """Return the number at a version."""
        return self.totals[bisect_right(self.versions, version)]
