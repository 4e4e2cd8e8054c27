"""Files that people and other programs read: lines and rows outside of a lake, and logs in it that have a bound.

Append lines to a file of a user, each as durable as the answer that it was written.
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.log_files import add


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
