"""A checkpoint changed by us: mended, moved, rewritten or copied, and a planned batch withdrawn.

Mend a checkpoint of which files are torn, empty or gone, or say that it cannot be mended.

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
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strandline.core.errors import DataError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    NOTHING_YET,
    kafka_ends,
    newest_done,
    newest_planned,
    next_batch,
)

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
    if _numbers(checkpoint / OFFSETS)[-1:] != ends[-1:]:
        return  # one that is planned is played anyway
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


# Repair a checkpoint that was moved: by a promotion or its undo, or in a copied lake.
#
# For an operator with its own state (transformWithState) Spark 4.2 stores the absolute path of the file with the
# state's schema, and reads it from there: the first batch after a promotion failed, because the shadow lake in which the
# state was created is gone. All other paths in a checkpoint are relative to it.


STATE_FOLDER = "/state/"
PATHS = "stateSchemaFilePaths"


def settle(checkpoint: Place) -> None:
    """Change the paths in a checkpoint to its present place; a correct checkpoint is not written."""
    for number in (checkpoint / "state").names():
        about = checkpoint / "state" / number / "_metadata" / "v2"
        for name in about.names():
            if name.isdigit():
                _settle_operator(about / name, checkpoint)


def _settle_operator(file: Place, checkpoint: Place) -> None:
    version, _, metadata = (file.text() or "").partition("\n")
    operator = json.loads(metadata)
    if _settled(operator, checkpoint):
        (file.parent / f".{file.name}.crc").remove()
        file.put(f"{version}\n{json.dumps(operator, separators=(',', ':'))}")


def _settled(operator: dict[str, Any], checkpoint: Place) -> bool:
    """Correct the paths of an operator; return whether one was wrong."""
    was = json.dumps(operator)
    for store in operator["stateStoreInfo"]:
        store[PATHS] = [_here(path, checkpoint) for path in store.get(PATHS, ())]
    return json.dumps(operator) != was


def _here(path: str, checkpoint: Place) -> str:
    place = checkpoint / "state" / path.rpartition(STATE_FOLDER)[2]
    if not place.exists():
        return path
    return f"file:{place}" if place.is_local else str(place)


# Let a stream over Kafka go on at later offsets than those of its checkpoint, with its state as it is.
#
# Spark has no such operation, and refuses to start where records are gone. The offsets of the last committed batch are where
# the next one begins, in a file of JSON; a batch that was planned and not committed would read what is gone, so its plan is
# removed, and Spark plans it anew. Each step may be done already: a caller that was killed calls again.


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


# Change what a checkpoint says of its sources, or begin its state anew, at the exact offset of the last batch.
#
# Spark keeps the offsets of a query's sources by their position, and refuses a query of another number of sources.
# The lines are moved, never their content, so each source goes on where it was; one that is added begins at its first row.


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


# Withdraw a batch that Spark has planned and not finished, so that it is planned again with a smaller limit.
#
# Spark notes a batch's offsets before it runs, and a batch that is in the offset log keeps them for good: one that dies of
# its size would die at every start. As long as nothing of it was committed to the table, no reader knows of it, and the
# note can be taken back: Spark then plans the batch of that number again, from the same beginning.
#
# What is left of its state must go first. Batch N reads version N of the state and writes version N + 1, task by task. A
# changelog of N + 1, or a ``N+1.delta``, is overwritten when the batch of that number runs again, but a snapshot (``N+1.zip``) is
# not: the next load would take it as it is, with rows in it that the new batch has not read. Of the first batch all must go: Spark
# refuses to plan batch 0 where a state exists (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).


STATE_FILE = re.compile(r"\.?(\d+)(?:_[^.]*)?\.(?:changelog|zip|delta|snapshot)\b.*")


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
        found = STATE_FILE.fullmatch(file.name)
        if found and int(found[1]) > number:
            file.remove()


# A copy of what a checkpoint has about its state, without the state: a few small files, whatever the state's size.


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
