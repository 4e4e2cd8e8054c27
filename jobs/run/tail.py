"""Following the ledger of a table that grows, for those who ask every second."""

from pathlib import Path

from jobs.run.ledger import LOOKED_AGAIN, Entry, commit_file, entry_of


class Tail:
    """Follows the ledger of a growing table, reading each commit once."""

    def __init__(self, path: Path) -> None:
        """Begin at the first commit."""
        self._path = path
        self._next = 0
        self.read = 0
        self.written = 0
        self.appended = 0
        self.right_until: int | None = None
        """Up to which version of the static side every row is right; None while no row was looked up."""

    def follow(self) -> None:
        """Add what was committed since the last call."""
        while (file := commit_file(self._path, self._next)).exists():
            entry = entry_of(file)
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
            self.right_until = None
        looked = [*entry.looked.values()]
        known = [] if self.right_until is None else [self.right_until]
        self.right_until = min(looked + known, default=None)


def right_until(path: Path) -> int:
    """Return the version of the static side up to which every row of a table is right; -1 when none is."""
    tail = Tail(path)
    tail.follow()
    return -1 if tail.right_until is None else tail.right_until
