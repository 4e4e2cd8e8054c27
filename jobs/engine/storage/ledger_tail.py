"""Follow the ledger of a growing table, cheaply enough to be called every second."""

from jobs.engine.storage.commit_log import is_commit
from jobs.engine.storage.ledger import LOOKED_AGAIN, Entry, entry_at
from jobs.engine.storage.place import Place


class Tail:
    """Follows the ledger of a growing table, reading each commit once."""

    def __init__(self, path: Place) -> None:
        """Begin at the first commit."""
        self._path = path
        self._next = 0
        self.read = 0
        self.written = 0
        self.appended = 0
        self._looked: int | None = None

    @property
    def right_until(self) -> int:
        """Return the dimension's version up to which every row is joined correctly; -1 when none is."""
        return -1 if self._looked is None else self._looked

    def follow(self) -> None:
        """Read the commits since the last call."""
        while is_commit(self._path, self._next):
            entry = entry_at(self._path, self._next)
            if entry is not None and entry.replaced:
                self.read = self.written = self.appended = 0
            if entry is not None:
                self.read += entry.read
                self.written += entry.written
                self.appended += entry.appended
                self._look(entry)
            self._next += 1

    def _look(self, entry: Entry) -> None:
        if entry.replaced or entry.mode == LOOKED_AGAIN:
            self._looked = None
        known = [] if self._looked is None else [self._looked]
        self._looked = min([*entry.looked.values(), *known], default=None)


def right_until(path: Place) -> int:
    """Return the dimension's version up to which every row of a table is joined correctly; -1 when none is."""
    tail = Tail(path)
    tail.follow()
    return tail.right_until
