"""What Spark wrote ahead: which input a batch has, and where the watermark stood.

A micro-batch's range is in the offset log before the batch begins, so a ledger entry made inside the batch
names exactly what a replay after a crash will read again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from jobs.run.balance import live_rows
from jobs.run.files import Added, added
from jobs.run.ledger import is_passed_over
from jobs.run.standing import table_id

NOTHING_YET = "-"
"""What Spark writes for a source that has no offset yet."""

WHOLE = 1 << 40
"""Delta marks "every file of this version" with a number beyond any real position."""


WHOLE_MARK = "begins_whole"
"""The file in a checkpoint that says how its stream began; Spark passes over it."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a Delta table's log: the files before it were read."""

    version: int
    files: int = 0


Positions: TypeAlias = Mapping[str, Position]
"""Where a stream stands in each of its sources, by the id that Delta gave to the source's table."""

NOWHERE = Position(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A micro-batch as Spark planned it.

    Args:
        number: The batch.
        start: Where its input begins.
        end: Where its input ends.
        watermark_ms: The watermark that evicts state in this batch.
        late_ms: The watermark below which this batch drops rows: that of the batch before.
        whole: Whether it reads its sources as they stand, and not from their first commit on.
    """

    number: int
    start: Positions
    end: Positions
    watermark_ms: int
    late_ms: int
    whole: bool = False

    def input(self, source: Path) -> "list[tuple[int, Added]]":
        """Return the versions of a source that the batch reads, and what each adds."""
        name = table_id(source)
        if self.whole:
            version = self.end.get(name, NOWHERE).version - 1
            if version < 0:
                return []
            return [(version, Added(rows=live_rows(source, version), lowest={}, files=()))]
        parts = _parts(self.start.get(name, NOWHERE), self.end.get(name, NOWHERE))
        found = (
            (version, added(source, version, files=files))
            for version, files in parts
            if not is_passed_over(source, version)
        )
        return [(version, part) for version, part in found if part.rows]


def planned(checkpoint: Path, number: int) -> Planned:
    """Read one batch of the offset log, and the one before it."""
    watermark, end = _line(checkpoint, number)
    late, start = _line(checkpoint, number - 1) if number > 0 else (0, {})
    return Planned(
        number=number,
        start=start,
        end=end,
        watermark_ms=watermark,
        late_ms=late,
        whole=number == 0 and begins_whole(checkpoint),
    )


def begin_whole(checkpoint: Path) -> None:
    """Write down that a stream begins with its sources as they stand."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / WHOLE_MARK).touch()


def begins_whole(checkpoint: Path) -> bool:
    """Tell whether a stream began with its sources as they stood."""
    return (checkpoint / WHOLE_MARK).exists()


def is_new(checkpoint: Path) -> bool:
    """Tell whether a stream has not planned anything yet."""
    return _newest(checkpoint / "offsets") is None


def stream_id(checkpoint: Path) -> str | None:
    """Return the identity that Spark gave to the checkpoint, or None when there is none yet."""
    file = checkpoint / "metadata"
    return str(json.loads(file.read_text())["id"]) if file.exists() else None


def is_ahead(checkpoint: Path, newest: int | None, sources: Sequence[Path]) -> bool:
    """Tell whether Spark believes rows to be written that the table's newest entry knows nothing of.

    Batches without rows have no entry and prove nothing; a stream that starts before its source has rows commits
    such a batch.
    """
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not done or (newest is not None and max(done) <= newest):
        return False
    start = {} if newest is None else _line(checkpoint, newest)[1]
    end = _line(checkpoint, max(done))[1]
    between = Planned(number=max(done), start=start, end=end, watermark_ms=0, late_ms=0)
    return any(between.input(source) for source in sources)


def settled_ms(checkpoint: Path, *, speaks_of_time: bool) -> int:
    """Return the moment before which a stream will not write any more, in milliseconds; 0 when there is none.

    What the law admits lies above the newest watermark. But what a stream says because time passed, it says a
    batch after its watermark moved, so for such a table it is the watermark of the last batch that ended.
    """
    done = _newest(checkpoint / "commits")
    if done is None:
        return 0
    if speaks_of_time:
        return _line(checkpoint, int(done.name))[0]
    return int(json.loads(done.read_text().splitlines()[1])["nextBatchWatermarkMs"])


def is_idle(checkpoint: Path, *, speaks_of_time: bool) -> bool:
    """Tell whether the last planned batch has ended, and the one that its last watermark asks for too.

    Args:
        checkpoint: Of the stream.
        speaks_of_time: Whether a new watermark makes a batch of its own.
    """
    planned, done = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if planned is None:
        return True
    if done is None or planned.name != done.name:
        return False
    if not speaks_of_time:
        return True
    before = json.loads(planned.read_text().splitlines()[1])["batchWatermarkMs"]
    after = json.loads(done.read_text().splitlines()[1])["nextBatchWatermarkMs"]
    return bool(before == after)


def _newest(folder: Path) -> Path | None:
    numbered = [file for file in folder.glob("*") if file.name.isdigit()]
    return max(numbered, key=lambda file: int(file.name), default=None)


def _parts(start: Position, end: Position) -> Iterator[tuple[int, tuple[int, int | None]]]:
    for version in range(start.version, end.version + 1):
        first = start.files if version == start.version else 0
        last = end.files if version == end.version else None
        if last is None or last > first:
            yield version, (first, None if last is not None and last >= WHOLE else last)


def _line(checkpoint: Path, number: int) -> tuple[int, dict[str, Position]]:
    _, metadata, *offsets = (checkpoint / "offsets" / str(number)).read_text().splitlines()
    positions = {}
    for text in offsets:
        if text == NOTHING_YET:
            continue
        found = json.loads(text)
        # An index counts the files of a version from 0 and names the last one read; below 0 is none.
        at = Position(found["reservoirVersion"], max(found["index"] + 1, 0))
        positions[str(found["reservoirId"])] = at
    return int(json.loads(metadata)["batchWatermarkMs"]), positions
