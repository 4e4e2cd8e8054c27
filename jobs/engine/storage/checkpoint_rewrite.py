"""Change what a checkpoint says of its sources, or begin its state anew, at the exact offset of the last batch.

Spark keeps the offsets of a query's sources by their position, and refuses a query of another number of sources.
The lines are moved, never their content, so each source goes on where it was; one that is added begins at its first row.
"""

from collections.abc import Sequence

from jobs.engine.storage.place import Place
from jobs.engine.storage.spark_checkpoint import NOTHING_YET

HEAD = 2
"""Lines before the offsets: the version, and the watermark with the settings."""

SHELVED = "retired_state"
"""The folder of a state that no code reads any more; Spark ignores it."""


def rewrite_sources(checkpoint: Place, order: Sequence[int | None]) -> None:
    """Put the offsets of the last two batches into another order.

    A start reads the newest batch, and the one before it where the newest was planned and is not complete.

    Args:
        checkpoint: A checkpoint of which no stream runs.
        order: For each source of the new query its former position; None for one that was not read.
    """
    offsets = checkpoint / "offsets"
    numbers = sorted(int(name) for name in offsets.names() if name.isdigit())
    for number in numbers[-2:]:
        file = offsets / str(number)
        lines = file.local.read_text().splitlines()
        head, former = lines[:HEAD], lines[HEAD:]
        moved = [NOTHING_YET if place is None else former[place] for place in order]
        file.put("\n".join([*head, *moved]))


def retire_state(checkpoint: Place) -> None:
    """Take the state out of a checkpoint whose query needs none any more; its offsets stay."""
    state = checkpoint / "state"
    if state.exists():
        (checkpoint / SHELVED).remove()
        state.move(checkpoint / SHELVED)
