"""Files beside the tables: lines and rows for people and other programs, logs that have a bound, folders for a while.

Append lines to a file of a user, each as durable as the answer that it was written.
"""

import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.place import Place
from strandline.engine.runtime.log_files import add
from strandline.engine.runtime.processes import is_there, own


def takes_lines(file: Place) -> bool:
    """Return whether there is no folder in its place."""
    return not file.local.is_dir()


def append_line(file: Place, line: bytes) -> None:
    """Append a line, on the disk when this returns; after a line that a full disk cut off it begins a new one.

    Raises:
        TransientError: It cannot be written now.
    """
    try:
        file.parent.make()
        with file.local.open("a+b") as stream:
            stream.write((b"" if _ends_a_line(stream) else b"\n") + line + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise TransientError(
            f"{file} cannot be written: {error.strerror}",
            hint="make room, or make it writable.",
            file=str(file),
        ) from error


def _ends_a_line(stream: io.BufferedRandom) -> bool:
    if not stream.seek(0, os.SEEK_END):
        return True
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) == b"\n"


# Files of rows for use outside of the lake, each written completely or not at all.


def write_parquet(batches: Any, file: Place) -> int:  # noqa: ANN401  # Arrow has no types
    """Write batches of Arrow to a Parquet file; return the number of rows."""
    count = 0
    with _whole(file) as draft, pq.ParquetWriter(draft, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def write_lines(lines: Iterable[bytes], file: Place) -> int:
    """Write lines to a file; return their number."""
    count = 0
    with _whole(file) as draft, draft.open("wb") as text:
        for line in lines:
            text.write(line + b"\n")
            count += 1
    return count


@contextmanager
def _whole(file: Place) -> Iterator[Path]:
    """Name a draft that becomes the file when the block ends well, and is removed otherwise."""
    draft = file.parent / f".{file.name}.new"
    try:
        yield draft.local
        draft.move(file)
    finally:
        draft.remove()


# A log of a lake for people, of which one earlier part is kept: in a folder 20 MB, on a store less, because a line copies it.


MOST = 1_000_000
"""Bytes of the log on a store: a line is appended in some ten milliseconds."""


def add_line(log: Place, line: str) -> None:
    """Append a line, after the log has been put aside if it has grown too long."""
    if log.is_local:
        add(log.local, line)
        return
    if log.is_file() and log.size() > MOST:
        log.move(log.parent / f"{log.name}.1")
    log.append(line)


# The log of what was shown unmasked: who asked, when, why, and for what. One line a question, beside the lake's other logs.


def write_down(
    lake: Lake, asked: Mapping[str, str | None], *, who: str, at: datetime, why: str
) -> None:
    """Log a question before it is answered unmasked.

    Raises:
        DefinitionError: No reason is given.
    """
    if not why.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='give the reason: --unmasked "fraud case 17"',
        )
    line = {"at": at.isoformat(timespec="seconds"), "who": who, "why": why, **asked}
    lake.log("unmasked").append(json.dumps(line, ensure_ascii=False))


# Folders for a while: made for a block and removed after it, also when the block is killed.
#
# A kill leaves the folder behind. It has the record of its maker, so the next that makes one in the same folder removes
# those of makers that are gone. A program that the maker started may outlive it and write on; it holds a lease in the
# folder, which then stays until the lease is free.


MAKER = "_maker.json"
"""The file in such a folder with the process that made it."""


@contextmanager
def scratch(within: Place | None = None) -> Iterator[Place]:
    """Make an empty folder for the length of the block; only the record of its maker is in it.

    Args:
        within: The folder in which to make it; the system's own for such folders when None.
    """
    if within:
        for left in abandoned(within):
            left.remove(if_possible=True)
    if within and not within.is_local:
        made = within / f"strandline-{uuid4().hex}"
        (made / MAKER).put(json.dumps(own()))
        try:
            yield made
        finally:
            made.remove(if_possible=True)
        return
    folder = within.make().local if within else None
    with tempfile.TemporaryDirectory(
        prefix="strandline-", dir=folder, ignore_cleanup_errors=True
    ) as name:
        if within:
            (Place(name) / MAKER).put(json.dumps(own()))
        yield Place(name)


def is_scratch(lake: Place) -> bool:
    """Return whether a lake is in such a folder."""
    return (lake.parent / MAKER).is_file()


def abandoned(within: Place) -> list[Place]:
    """Return the scratch folders whose maker is gone and in which no other process writes a table.

    One without a record, or with that of another host, is not among them: its maker is unknown.
    """
    return [place for name in within.names() if _is_abandoned(place := within / name)]


def _is_abandoned(place: Place) -> bool:
    try:
        maker = json.loads((place / MAKER).text() or "{}")
    except ValueError:
        return False
    if "pid" not in maker or is_there(maker) is not False:
        return False
    leases = (place / name / "_leases" for name in place.names())
    return not any(is_held(folder / lock) for folder in leases for lock in folder.names())
