"""Change what a checkpoint says of its sources, or begin its state anew, at the exact offset of the last batch.

Spark keeps the offsets of a query's sources by their position, and refuses a query of another number of sources.
The lines are moved, never their content, so each source goes on where it was; one that is added begins at its first row.
"""

import json
from collections.abc import Sequence

from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import NOTHING_YET

HEAD = 2
"""Lines before the offsets: the version, and the watermark with the settings."""

SHELVED = "retired_state"
"""The folder of a state that no code reads any more; Spark ignores it."""


FORMER = "former_offsets.json"
"""What the offsets were, while they are moved: lines that were moved once must not be moved again after a crash."""


def rewrite_sources(checkpoint: Place, order: Sequence[int | None]) -> None:
    """Put the offsets of the last two batches into another order.

    A start reads the newest batch, and the one before it where the newest was planned and is not complete.

    Args:
        checkpoint: A checkpoint of which no stream runs.
        order: For each source of the new query its former position; None for one that was not read.
    """
    offsets = checkpoint / "offsets"
    last_two = sorted((name for name in offsets.names() if name.isdigit()), key=int)[-2:]
    texts = {name: (offsets / name).text() or "" for name in last_two}
    texts = _former(checkpoint, texts)
    (checkpoint / FORMER).put(json.dumps(texts))
    for name in last_two:  # the newest last: until then the checkpoint counts as not moved
        lines = texts[name].splitlines()
        moved = [NOTHING_YET if place is None else lines[HEAD + place] for place in order]
        (offsets / name).put("\n".join([*lines[:HEAD], *moved]))
    (checkpoint / FORMER).remove()


def _former(checkpoint: Place, texts: dict[str, str]) -> dict[str, str]:
    """Return the offsets as they were before a move that a crash has interrupted; as they are where there was none."""
    kept: dict[str, str] = json.loads((checkpoint / FORMER).text() or "{}")
    newest = max(texts, key=int, default="")
    return kept if kept.keys() == texts.keys() and kept.get(newest) == texts.get(newest) else texts


def retire_state(checkpoint: Place) -> None:
    """Take the state out of a checkpoint whose query needs none any more; its offsets stay."""
    state = checkpoint / "state"
    if state.exists():
        (checkpoint / SHELVED).remove()
        state.move(checkpoint / SHELVED)
