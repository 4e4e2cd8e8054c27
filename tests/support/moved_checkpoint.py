"""The checkpoint of a stream as it would be many batches later: Spark knows batches and versions of the state by number alone."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import newest_done

NUMBERED = re.compile(r"(?P<number>\d+)(?P<rest>\.changelog|\.zip|)")


def has_snapshots(checkpoint: Path) -> bool:
    """Return whether each part of the state was written as a whole once, so that what was before is not needed."""
    return all(any(part.glob("*.zip")) for part in _parts(checkpoint))


def move(
    checkpoint: Path, target: Path, last: int, ends: Mapping[str, int], before: Mapping[str, int]
) -> None:
    """Copy a checkpoint whose last batch is finished, with another number for it.

    Args:
        checkpoint: The checkpoint.
        target: Where the copy is made.
        last: The number of its last batch.
        ends: By the id of each table that it reads the version to read next.
        before: The same before the last batch.
    """
    done = newest_done(Place.of(checkpoint))
    assert done is not None
    shutil.copytree(checkpoint, target)
    for folder in ("offsets", "commits"):
        _keep(target / folder, since=done - 1, by=last - done)
    for part in _parts(target):
        snapshot = max(int(each.stem) for each in part.glob("*.zip"))
        _keep(part, since=snapshot, by=last - done)
    for number, positions in ((last, ends), (last - 1, before)):
        file = target / "offsets" / str(number)
        version, conditions, *lines = file.read_text().splitlines()
        moved = [_moved(line, positions) for line in lines]
        file.write_text("\n".join([version, conditions, *moved]))


def _parts(checkpoint: Path) -> list[Path]:
    """Return the folders of the state, one for each partition of each operator."""
    return [each for each in (checkpoint / "state").glob("*/*") if each.name.isdigit()]


def _keep(folder: Path, *, since: int, by: int) -> None:
    """Give what has a number since one another number, and remove what is older."""
    found = [(each, match) for each in folder.iterdir() if (match := NUMBERED.fullmatch(each.name))]
    found.sort(key=lambda each: int(each[1]["number"]), reverse=by > 0)
    for file, match in found:
        (folder / f".{file.name}.crc").unlink(missing_ok=True)
        number = int(match["number"])
        if number < since:
            file.unlink()
        else:
            file.rename(folder / f"{number + by}{match['rest']}")


def _moved(line: str, ends: Mapping[str, int]) -> str:
    offset = json.loads(line)
    return json.dumps({**offset, "reservoirVersion": ends[offset["reservoirId"]]})
