"""A copy of what a checkpoint has about its state, without the state: a few small files, whatever the state's size."""

import json
import re

from jobs.engine.storage.place import Place
from jobs.engine.storage.spark_checkpoint import next_batch

ABOUT_STATE = re.compile(
    r"[^/]+/(_metadata|_stateSchema)/.+"
    # Spark writes the schema of a store into its first partition, that of a join's stores one folder below.
    r"|[^/]+/0/([^/]+/)?_metadata/[^/]+"
)


def copy_metadata(checkpoint: Place, to: Place) -> None:
    """Copy what a checkpoint has about its state to another folder, as of a batch that is planned and not begun.

    Spark writes a batch into the log of offsets before it plans it, and a reader of state variables asks for that.
    """
    for file in (checkpoint / "state").files():
        name = file.below(checkpoint / "state")
        if ABOUT_STATE.fullmatch(name):
            _copy(file, to / "state" / name)
    planned = max(
        (int(each) for each in (checkpoint / "offsets").names() if each.isdigit()), default=None
    )
    if planned is not None:
        last = checkpoint / "offsets" / str(planned)
        _copy(last, to / "offsets" / str(next_batch(checkpoint)))


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
