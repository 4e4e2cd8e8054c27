"""Append lines to a file of a user, each as durable as the answer that it was written."""

import io
import os

from strandline.core.errors import TransientError
from strandline.engine.storage.place import Place


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
