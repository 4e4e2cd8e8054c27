"""What Spark wrote ahead: which input a batch has, and where the watermark stood.

A micro-batch's range is in the offset log before the batch begins, so a ledger entry made inside the batch
names exactly what a replay after a crash will read again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.run.ledger import Added, added

WHOLE = 1 << 40
"""Delta marks "every file of this version" with a number beyond any real position."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a Delta table's log: the files before it were read."""

    version: int
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A micro-batch as Spark planned it.

    Args:
        number: The batch.
        start: Where its input begins.
        end: Where its input ends.
        watermark_ms: The watermark that evicts state in this batch.
        late_ms: The watermark below which this batch drops rows: that of the batch before.
    """

    number: int
    start: Position
    end: Position
    watermark_ms: int
    late_ms: int

    def input(self, source: Path) -> "list[tuple[int, Added]]":
        """Return the versions that the batch reads, and what each adds."""
        found = ((v, added(source, v, files=files)) for v, files in self._parts())
        return [(version, part) for version, part in found if part.rows]

    def _parts(self) -> Iterator[tuple[int, tuple[int, int | None]]]:
        for version in range(self.start.version, self.end.version + 1):
            first = self.start.files if version == self.start.version else 0
            last = self.end.files if version == self.end.version else None
            if last is None or last > first:
                yield version, (first, None if last is not None and last >= WHOLE else last)


def planned(checkpoint: Path, number: int) -> Planned:
    """Read one batch of the offset log, and the one before it."""
    watermark, end = _line(checkpoint, number)
    late, start = _line(checkpoint, number - 1) if number > 0 else (0, Position(0))
    return Planned(number=number, start=start, end=end, watermark_ms=watermark, late_ms=late)


def stream_id(checkpoint: Path) -> str | None:
    """Return the identity that Spark gave to the checkpoint, or None when there is none yet."""
    file = checkpoint / "metadata"
    return str(json.loads(file.read_text())["id"]) if file.exists() else None


def is_ahead(checkpoint: Path, newest: int | None, source: Path) -> bool:
    """Tell whether Spark believes rows to be written that the table's newest entry knows nothing of.

    Batches without rows have no entry and prove nothing; a stream that starts before its source has rows commits
    such a batch.
    """
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not done or (newest is not None and max(done) <= newest):
        return False
    start = Position(0) if newest is None else _line(checkpoint, newest)[1]
    end = _line(checkpoint, max(done))[1]
    between = Planned(number=max(done), start=start, end=end, watermark_ms=0, late_ms=0)
    return bool(between.input(source))


def _line(checkpoint: Path, number: int) -> tuple[int, Position]:
    _, metadata, offset = (checkpoint / "offsets" / str(number)).read_text().splitlines()[:3]
    found = json.loads(offset)
    # An index counts the files of a version from 0 and names the last one read; below 0 is none.
    position = Position(found["reservoirVersion"], max(found["index"] + 1, 0))
    return int(json.loads(metadata)["batchWatermarkMs"]), position
