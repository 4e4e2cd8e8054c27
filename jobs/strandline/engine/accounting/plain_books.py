"""Books: the sums of a ledger, followed from its last snapshot on. These check nothing, as those of a quarantine."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.ledger_snapshot import snapshot
from strandline.engine.storage.ledger_sums import Sums, follow
from strandline.engine.storage.place import Place

MOST = 100
"""How many faults are kept; the first ones lead to the cause."""


class PlainBooks:
    """The sums of a ledger; a subclass checks its entries and carries forward what it needs for that."""

    def __init__(self, path: Place, *, from_start: bool = False) -> None:
        """Begin at the last snapshot, or before the first commit; nothing is read yet."""
        self.path = path
        self.faults: list[str] = []
        self.sums = Sums()
        taken = None if from_start else snapshot(path)
        if taken is not None and self._restore(taken.sheet):
            self.sums = taken.sums
        else:
            self._restore({})

    def follow(self, until: int | None = None) -> Self:
        """Read the entries since the last call, to the latest or to a version; return itself."""
        follow(self.path, self.sums, until, self._add)
        return self

    def find(self, faults: Iterable[str]) -> None:
        """Note faults, which are carried forward as well."""
        self.faults += [*faults][: MOST - len(self.faults)]

    def encoded(self) -> dict[str, Any]:
        """Return what is carried forward beside the sums, as JSON."""
        return {"faults": self.faults}

    def _restore(self, sheet: Mapping[str, Any]) -> bool:
        """Take what was carried forward, and return whether it still holds."""
        self.faults = [*sheet.get("faults", ())]
        return True

    def _add(self, version: int, entry: Entry) -> None:
        """Check an entry, once it is in the sums."""
