"""Let a stream over Kafka go on at later offsets than those of its checkpoint, with its state as it is.

Spark has no such operation, and refuses to start where records are gone. The offsets of the last committed batch are where
the next one begins, in a file of JSON; a batch that was planned and not committed would read what is gone, so its plan is
removed, and Spark plans it anew. Each step may be done already: a caller that was killed calls again.
"""

import json
from collections.abc import Mapping

from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import NOTHING_YET, kafka_ends

Ends = Mapping[str, Mapping[str, int]]
"""By topic and partition the offsets to read next, as Spark writes them."""


def is_before(checkpoint: Place, ends: Ends) -> bool:
    """Return whether a stream has committed a batch, and reads a partition from an earlier offset on than the given one."""
    found = kafka_ends(checkpoint)
    if found is None:
        return (checkpoint / "offsets").exists()
    return any(
        at < ends.get(topic, {}).get(number, at)
        for topic, parts in found[1].items()
        for number, at in parts.items()
    )


def move_to(checkpoint: Place, ends: Ends) -> None:
    """Let the next batch begin at the given offsets where they are later; a stream that never committed begins anew."""
    found = kafka_ends(checkpoint)
    if found is None:
        checkpoint.remove()
        return
    done, _ = found
    offsets = checkpoint / "offsets"
    for name in offsets.names():
        if name.isdigit() and int(name) > done:
            _put(offsets / name, None)
    lines = ((offsets / str(done)).text() or "").splitlines()
    moved = [_moved(line, ends) for line in lines[2:]]
    _put(offsets / str(done), "\n".join([*lines[:2], *moved]))


def _moved(line: str, ends: Ends) -> str:
    if line == NOTHING_YET:
        return line
    later = {
        topic: {
            number: max(at, ends.get(topic, {}).get(number, at)) for number, at in parts.items()
        }
        for topic, parts in json.loads(line).items()
    }
    return json.dumps(later, separators=(",", ":"))


def _put(file: Place, text: str | None) -> None:
    """Replace or remove a file and, before it, the checksum that Hadoop keeps beside it."""
    (file.parent / f".{file.name}.crc").remove()
    if text is None:
        file.remove()
    else:
        file.put(text)
