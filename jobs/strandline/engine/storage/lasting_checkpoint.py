"""Bring what Spark wrote of a checkpoint to the disk, in the order that jobs/strandline/engine/storage/durable.py explains."""

import re
from pathlib import Path

from strandline.engine.storage.durable import sync_all
from strandline.engine.storage.lasting_files import keep_files
from strandline.engine.storage.place import Place

CHANGES = ".changelog"
LEADING_DIGITS = re.compile(r"\d+")


def keep_plan(checkpoint: Place, number: int) -> None:
    """Bring the plan of a batch to the disk, before the batch is written: after a power cut it decides what was read."""
    files = [checkpoint / "metadata", checkpoint / "offsets" / str(number)]
    keep_files(files, within=checkpoint.parent)


def keep_state(checkpoint: Place, known: set[str]) -> None:
    """Bring the files of the state to the disk that are new, before Spark marks their batch as finished.

    Those of a batch that is marked were kept before; a snapshot is written beside the batches, and kept with the next.

    Args:
        checkpoint: The stream's checkpoint.
        known: The files that were kept before; those of now are put in their place. Spark keeps a hundred batches.
    """
    if not checkpoint.is_local:
        return
    ends = [int(name) for name in (checkpoint / "commits").names() if name.isdigit()]
    state, done = (checkpoint / "state").local, max(ends, default=None)
    found = {str(file) for file in state.rglob("*") if file.is_file() and file.name[0] != "."}
    new = [Path(file) for file in found - known]
    kept = 0 if done is None else done + 1
    if new := [file for file in new if file.suffix != CHANGES or _version_of(file) > kept]:
        sync_all(new, within=checkpoint.local)
    known.clear()
    known.update(found)


def _version_of(file: Path) -> int:
    """Return the version of the state that a file brings forward: one more than the number of its batch."""
    digits = LEADING_DIGITS.match(file.name)
    return int(digits[0]) if digits else 0
