"""Where the slices of imports are in a table's log: one small file a slice, numbered in the order of the commits.

An import is rare among the commits of a table, so a search of the log for the commit with an imported offset reads nearly
all of it: 10,002 entries of a log with 10,000. The files here are as dense as the offsets: a number is found by halving,
with two small files read for each doubling of their count.

A file is written before its commit and names the newest version then. So it can lack no commit, whenever a process is
killed, and the commit is one of the next versions. It is a hint: what it leads to is read from the log and compared, and
where there is none (a lake of an older version) the log is searched.
"""

import json
from dataclasses import asdict, dataclass

from strandline.engine.storage.import_notes import FOLDER
from strandline.engine.storage.place import Place


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of imported rows, and where its commit is.

    Args:
        first: Its first offset.
        after: The newest version of the table before its commit.
    """

    first: int
    after: int


class ImportSlices:
    """The slices of one topic's imported rows in the commits of a table.

    Args:
        table: Where the table lies.
        part: The partition of the topic's imported rows.
    """

    def __init__(self, table: Place, part: str) -> None:
        """Read nothing yet."""
        root, name = table.parent.parent, f"{table.parent.name}.{table.name}"
        self._folder = root / FOLDER / "slices" / name / part

    def note(self, first: int, after: int) -> None:
        """Write down that the next commit has the rows from an offset on; one that was never made is replaced."""
        text = json.dumps(asdict(Slice(first, after)))
        (self._folder / f"{self._number_from(first)}.json").put(text)

    def of(self, offset: int) -> Slice | None:
        """Return the slice that an offset is in, or would be in; None where none is known."""
        number = self._number_from(offset + 1) - 1
        return self._read(number) if number >= 0 else None

    def before_run(self, first: int, version: int) -> int | None:
        """Return the version before a row of commits that are nothing but slices, which ends with a slice; None if unknown.

        A slice is committed behind the version that its note names, and before the note of the next slice. So where the
        versions of the notes grow by one, all commits between are slices.

        Args:
            first: The first offset of the last slice.
            version: Its version.
        """
        number = self._number_from(first)
        last = self._read(number)
        if last != Slice(first, version - 1):
            return None
        low, high, found = 0, number, last
        while low < high:
            middle = (low + high) // 2
            near = self._read(middle)
            if near is not None and last.after - near.after == number - middle:
                high, found = middle, near
            else:
                low = middle + 1
        return found.after

    def _number_from(self, offset: int) -> int:
        """Return the number of the first slice that begins at an offset or later; the next one where none does."""
        high = 1
        while self._is_before(high - 1, offset):
            high *= 2
        low = high // 2
        while low < high:
            middle = (low + high) // 2
            if self._is_before(middle, offset):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_before(self, number: int, offset: int) -> bool:
        found = self._read(number)
        return found is not None and found.first < offset

    def _read(self, number: int) -> Slice | None:
        text = (self._folder / f"{number}.json").text()
        return Slice(**json.loads(text)) if text else None
