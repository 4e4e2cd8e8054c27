"""A copy of what a checkpoint has about its state, without the state: a few small files, whatever the state's size."""

import json
import re
from collections.abc import Iterator

from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import next_batch

STORE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
"""The folder of one of a join's stores; a file of a version begins with its number."""


def copy_metadata(checkpoint: Place, to: Place) -> None:
    """Copy what a checkpoint has about its state to another folder, as of a batch that is planned and not begun.

    Spark writes a batch into the log of offsets before it plans it, and a reader of state variables asks for that.
    """
    for folder in _about_state(checkpoint / "state"):
        for file in folder.files():
            _copy(file, to / file.below(checkpoint))
    planned = max(
        (int(each) for each in (checkpoint / "offsets").names() if each.isdigit()), default=None
    )
    if planned is not None:
        last = checkpoint / "offsets" / str(planned)
        _copy(last, to / "offsets" / str(next_batch(checkpoint)))


def _about_state(state: Place) -> Iterator[Place]:
    """Yield the folders in which Spark describes a state; the files of its versions are not looked at."""
    for operator in state.names():
        yield from (state / operator / name for name in ("_metadata", "_stateSchema"))
        # The schema of a store is in its first partition, that of a join's stores one folder below.
        first = state / operator / "0"
        yield first / "_metadata"
        yield from (first / name / "_metadata" for name in first.names() if STORE.fullmatch(name))


def _copy(file: Place, target: Place) -> None:
    content = file.bytes()
    if content is not None:
        target.put_bytes(content)


def operator_names(checkpoint: Place) -> list[str]:
    """Return Spark's names of the operators that have state in a checkpoint, in their order; none for a query without."""
    found = {}
    for number in (checkpoint / "state").names():
        about = checkpoint / "state" / number / "_metadata"
        newest = max(
            (each for each in (about / "v2").names() if each.isdigit()), key=int, default=""
        )
        text = (about / "v2" / newest if newest else about / "metadata").text()
        if text:
            operator = json.loads(text.partition("\n")[2])["operatorInfo"]
            found[int(operator["operatorId"])] = str(operator["operatorName"])
    return [found[number] for number in sorted(found)]
