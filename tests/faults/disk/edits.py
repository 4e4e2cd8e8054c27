"""Changes of a stream's checkpoint, and the checkpoint that each begins with: run under the recorder, and again after a crash."""

from collections.abc import Callable
from dataclasses import dataclass

from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.mend_checkpoint import (
    Ends,
    is_before,
    move_to,
    retire_state,
    rewrite_sources,
    unfinished,
    withdraw,
)
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import source_ids

TABLE = catalog.find("silver.device_telemetry")
DONE, PLANNED = 10, 11
LATER: Ends = {"readings": {"0": 700, "1": 800}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of a checkpoint.

    Args:
        make: Fills the folder that it begins with.
        change: Does it, unless it is done.
    """

    make: Callable[[Place], None]
    change: Callable[[Place], None]


def checkpoint(lake: Lake) -> Place:
    """Return the checkpoint that is changed."""
    return lake.checkpoint(TABLE)


def _of_tables(place: Place) -> None:
    _batches(place, lambda number: [f'{{"reservoirId":"{each}","n":{number}}}' for each in "abc"])


def _of_kafka(place: Place) -> None:
    _batches(place, lambda number: [f'{{"readings":{{"0":{number},"1":{2 * number}}}}}'])


def _batches(place: Place, sources: Callable[[int], list[str]]) -> None:
    """Write two batches that are finished, and one that is planned and has begun its state."""
    (place / "metadata").put('{"id":"5"}')
    for number in range(DONE - 1, PLANNED + 1):
        (place / "offsets" / str(number)).put("\n".join(["v1", "{}", *sources(number)]))
        for partition in range(3):
            part = place / "state" / "0" / str(partition)
            (part / f"{number + 1}.changelog").put(f"state {number}")
    for number in range(DONE - 1, DONE + 1):
        (place / "commits" / str(number)).put("v1\n{}")
    (place / "state" / "0" / "1" / f"{PLANNED + 1}.zip").put("a snapshot")


def _rewrite(place: Place) -> None:
    """As a migration does: it looks at the newest batch to know where its sources are."""
    were = source_ids(place)
    if were != ["c", None, "a"]:
        rewrite_sources(place, [were.index("c"), None, were.index("a")])


def _withdraw(place: Place) -> None:
    if unfinished(place) == PLANNED:
        withdraw(place, PLANNED)


def _move(place: Place) -> None:
    if is_before(place, LATER):
        move_to(place, LATER)


EDITS = {
    "rewrite_sources": Edit(make=_of_tables, change=_rewrite),
    "retire_state": Edit(make=_of_tables, change=retire_state),
    "withdraw_batch": Edit(make=_of_tables, change=_withdraw),
    "move_on": Edit(make=_of_kafka, change=_move),
}
