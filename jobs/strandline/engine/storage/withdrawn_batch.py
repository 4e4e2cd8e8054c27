"""Withdraw a batch that Spark has planned and not finished, so that it is planned again with a smaller limit.

Spark notes a batch's offsets before it runs, and a batch that is in the offset log keeps them for good: one that dies of
its size would die at every start. As long as nothing of it was committed to the table, no reader knows of it, and the
note can be taken back: Spark then plans the batch of that number again, from the same beginning.

What is left of its state must go first. Batch N reads version N of the state and writes version N + 1, task by task. A
changelog of N + 1 is overwritten when the batch of that number runs again, but a snapshot (``N+1.zip``) is not: the next
load would take it as it is, with rows in it that the new batch has not read. Of the first batch all must go: Spark
refuses to plan batch 0 where a state exists (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
"""

import re

from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import newest_done, newest_planned

STATE = re.compile(r"\.?(\d+)(?:_[^.]*)?\.(?:changelog|zip|delta|snapshot)\b.*")


def unfinished(checkpoint: Place) -> int | None:
    """Return the number of the batch that was planned and is not finished, if there is one."""
    planned = newest_planned(checkpoint)
    return None if planned is None or planned == newest_done(checkpoint) else planned


def withdraw(checkpoint: Place, number: int) -> None:
    """Let Spark plan a batch again; nothing of it may be in the table, and no task of it in this JVM.

    A crash in between leaves the batch planned, without the beginnings of its state, as if it had not run.
    """
    if unfinished(checkpoint) != number:
        message = f"batch {number} of {checkpoint} is finished, or was never planned"
        raise ValueError(message)
    if newest_done(checkpoint) is None:
        (checkpoint / "state").remove()
    else:
        _forget_state(checkpoint / "state", number)
    offsets = checkpoint / "offsets"
    for name in (f".{number}.crc", str(number)):
        (offsets / name).remove()


def _forget_state(folder: Place, number: int) -> None:
    """Remove what a batch has written of its versions of the state."""
    for file in sorted(folder.files()):
        found = STATE.fullmatch(file.name)
        if found and int(found[1]) > number:
            file.remove()
