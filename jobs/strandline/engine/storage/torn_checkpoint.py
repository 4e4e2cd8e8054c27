"""Mend a checkpoint of which files are torn, empty or gone, or say that it cannot be mended.

Spark writes its logs without a sync, so after a power cut the newest of them may be empty, and Spark then ends with a stack
trace at every start (``Incomplete log file``). What it forgot, the table's ledger knows: a batch that is not in it was not
written, so its plan may be made anew; one that is in it is not written again, so its end may be forgotten. Worse than a
stack trace is a plan that is gone of a batch that was written: Spark would begin again with batch 0, whose rows would be
taken for written. That is refused.

A checkpoint that is left for good is removed file by file, and of a half one nothing could be known: one whose plans are
there and whose state is gone looks whole. So a mark beside it says that it is being left, and the next start goes on with that.

Files of the operators' state are Spark's alone; what it says about them is made clear in ``broken_state``.
"""

import json
from collections.abc import Sequence

from strandline.core.errors import DataError
from strandline.core.table import Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import last_entry
from strandline.engine.storage.place import Place

OFFSETS, COMMITS, METADATA = "offsets", "commits", "metadata"
SCHEMA = b"\0\2v2"
STATE = (
    "CANNOT_LOAD_STATE_STORE",
    "StateStore",
    "StateSchema",
    "OperatorStateMetadata",
    "RocksDB",
    ".changelog",
)
"""What Spark's errors about a damaged state contain, in their text or their stack trace."""

UNWRITTEN, UNREAD = "CANNOT_WRITE_STATE_STORE", "CANNOT_LOAD_STATE_STORE"
"""Spark's words for a state that it could not write; what is there is whole then, and a rebuild would not help."""


class BrokenCheckpointError(DataError):
    """A stream cannot go on, because a file of its checkpoint is damaged."""

    @classmethod
    def of(cls, table: Table, what: str) -> "BrokenCheckpointError":
        """Return the error with its remedy."""
        return cls(
            f"the checkpoint of {table.id} is damaged: {what}",
            hint=f"no row is lost. `strandline rebuild {table.id}` computes it beside the live one, with a whole "
            f"checkpoint, `strandline promote {table.id}` puts both in place and lists the tables above that follow.",
            table=table.id,
        )


def leave(checkpoint: Place) -> None:
    """Remove a checkpoint with which no stream is to go on; a mark beside it lets the next start end what a kill left half."""
    _leaving(checkpoint).put("")
    _end_leaving(checkpoint)


def is_being_left(checkpoint: Place) -> bool:
    """Return whether a process was killed while it removed a checkpoint."""
    return _leaving(checkpoint).is_file()


def _leaving(checkpoint: Place) -> Place:
    return checkpoint.parent / f"{checkpoint.name}.leaving"


def _end_leaving(checkpoint: Place) -> None:
    checkpoint.remove()
    _leaving(checkpoint).remove_file()


def mend(table: Table, lake: Lake) -> list[str]:
    """Remove what is torn of a checkpoint where that loses nothing; return the names of what was mended.

    Raises:
        BrokenCheckpointError: A batch that was written has lost its plan, or the one before it.
    """
    checkpoint = lake.checkpoint(table)
    if is_being_left(checkpoint):
        if any(last_entry(path) for path in lake.folders(table)):
            _leaving(
                checkpoint
            ).remove_file()  # it is another checkpoint, with which a table has come
        else:
            _end_leaving(checkpoint)
    if not checkpoint.names():
        return []
    stream, written = _newest_written(table, lake)
    mended = _mend_logs(table, checkpoint, -1 if written is None else written)
    mended += [*_mend_id(checkpoint, stream), *_clear(checkpoint / OFFSETS)]
    return [*mended, *_mend_schemas(checkpoint)]


def play_again(checkpoint: Place) -> None:
    """Forget that the last batch was finished, so that Spark plays it again; the ledger shows that it was written.

    A watermark that a batch has moved closes windows in the batch after it, which Spark begins without new rows only after
    a batch of the same process. A stream that was killed between the two left them open until the next event came.
    """
    ends = _numbers(checkpoint / COMMITS)
    if (
        len(ends) > 1 or 0 in ends
    ):  # it is read again from the end of the one before, or from the first version on
        _cut(checkpoint, COMMITS, ends, ends[-1])


def broken_state(table: Table, lake: Lake, error: BaseException) -> BrokenCheckpointError | None:
    """Return what an error of Spark means, if a file of the checkpoint is its cause; else None."""
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    place = str(lake.checkpoint(table) / "state")
    if UNWRITTEN in text and UNREAD not in text:
        return None
    if place not in text and not any(name in text for name in STATE):
        return None
    said = next((line.strip() for line in text.splitlines() if place in line), "")
    return BrokenCheckpointError.of(table, f"its state cannot be read. {said[:300]}".rstrip())


def _newest_written(table: Table, lake: Lake) -> tuple[str | None, int | None]:
    """Return the stream of a table's newest entry, and the last of its batches that is in a book."""
    own = last_entry(lake.table(table))
    if own is not None and own[1].mode == "batch":
        return None, None
    newest = [found[1] for path in lake.folders(table) if (found := last_entry(path))]
    if not newest:
        return None, None
    stream = newest[0].stream
    return stream, max(entry.batch for entry in newest if entry.stream == stream)


def _mend_logs(table: Table, checkpoint: Place, written: int) -> list[str]:
    """Cut both logs at the first batch that is not in the ledger and whose plan is torn, and at a torn end."""
    plans, ends = _numbers(checkpoint / OFFSETS), _numbers(checkpoint / COMMITS)
    whole = {number for number in plans if _is_whole(checkpoint / OFFSETS, number)}
    unknown = [
        number for number in {*plans, *ends[-1:]} if number > written and number not in whole
    ]
    first = min(unknown, default=1 + max([*plans, *ends], default=0))
    torn = ends[-1] if ends and not _is_whole(checkpoint / COMMITS, ends[-1]) else first
    if torn < first and any(torn < number <= written for number in plans):
        raise BrokenCheckpointError.of(
            table, f"the end of batch {torn} is torn (commits/{torn}), and a later one was written"
        )
    left = [number for number in plans if number < first and number <= torn]
    for number in {written, *left[-1:], *(number - 1 for number in left[-1:])}:
        if number >= 0 and number not in whole:
            raise BrokenCheckpointError.of(
                table,
                f"the plan of batch {number}, which was written, is gone or torn (offsets/{number})",
            )
    gone = _cut(checkpoint, COMMITS, ends, min(first, torn))
    return gone + _cut(checkpoint, OFFSETS, plans, min(first, torn + 1))


def _mend_schemas(checkpoint: Place) -> list[str]:
    """Remove the torn schemas of operators: Spark writes one that is missing, and fails at one that is torn."""
    if not checkpoint.is_local:  # a store writes an object whole or not at all
        return []
    torn = [
        file
        for file in checkpoint.local.glob("state/*/*/_metadata/schema")
        if not _is_whole_schema(file.read_bytes())
    ]
    for file in torn:
        file.unlink()
    return [str(file.relative_to(checkpoint.local)) for file in torn]


def _is_whole_schema(content: bytes) -> bool:
    """Return whether a schema is whole: of the key and of the value a number of texts, each after its length."""
    if not content.startswith(SCHEMA):
        return len(content) > len(SCHEMA)  # of another version; Spark must read it
    at = len(SCHEMA)
    for _ in ("key", "value"):
        texts, at = int.from_bytes(content[at : at + 4]), at + 4
        for _ in range(texts):
            at += 2 + int.from_bytes(content[at : at + 2])
    return at == len(content)


def _clear(log: Place) -> list[str]:
    """Remove the drafts of the first plan: where there is no plan, Spark refuses to begin beside anything."""
    names = [] if _numbers(log) else log.names()
    for name in names:
        (log / name).remove()
    return names


def _mend_id(checkpoint: Place, stream: str | None) -> list[str]:
    """Give a checkpoint its id again, which is in the ledger too."""
    file = checkpoint / METADATA
    try:
        if "id" in json.loads(file.text() or ""):
            return []
    except ValueError:
        pass
    if stream is not None:
        file.put(json.dumps({"id": stream}))
        return [METADATA]
    is_there = file.exists()
    file.remove()
    return [METADATA] if is_there else []


def _cut(checkpoint: Place, log: str, numbers: Sequence[int], first: int) -> list[str]:
    """Remove the files of a log from a number on, the newest first."""
    gone = sorted((number for number in numbers if number >= first), reverse=True)
    for number in gone:
        (checkpoint / log / str(number)).remove()
        (checkpoint / log / f".{number}.crc").remove()
    return [f"{log}/{number}" for number in gone]


def _text(file: Place) -> str:
    return (file.bytes() or b"").decode(errors="replace")


def _numbers(log: Place) -> list[int]:
    return sorted(int(name) for name in log.names() if name.isdigit())


def _is_whole(log: Place, number: int) -> bool:
    """Return whether a file of a log is what Spark wrote: a version, then lines of JSON."""
    version, *lines = _text(log / str(number)).split("\n")
    try:
        read = [json.loads(line) for line in lines if line != "-"]
    except ValueError:
        return False
    is_long = len(lines) > 1 if log.name == OFFSETS else bool(lines)
    return version.startswith("v") and is_long and all(isinstance(each, dict) for each in read)
