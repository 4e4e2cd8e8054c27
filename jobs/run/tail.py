"""Following the ledger of a table that grows, for those who ask every second."""

from pathlib import Path

from jobs.run.ledger import commit_file, entry_of


class Tail:
    """Follows the ledger of a growing table, reading each commit once."""

    def __init__(self, path: Path) -> None:
        """Begin at the first commit."""
        self._path = path
        self._next = 0
        self.read = 0
        self.written = 0
        self.appended = 0

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
            self._next += 1
