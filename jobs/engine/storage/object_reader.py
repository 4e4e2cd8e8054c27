"""An object as a file of Python that is read part by part.

obstore's own reader lacks ``closed``, which Arrow asks first: it takes a reader without it for a closed one, so neither a
checkpoint of a log nor a data file could be read from a store [pyarrow and obstore as pinned; test_object_files.py].
"""

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore import ReadableFile

BLOCK = 65_536
"""Bytes that are kept; the reader below asks the store for a megabyte at once."""


class _Raw(io.RawIOBase):
    def __init__(self, reader: "ReadableFile") -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:  # noqa: ANN401  # a buffer; Python 3.11 has no name for it
        found = bytes(self._reader.read(len(into)))
        into[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)


def as_file(reader: "ReadableFile") -> io.BufferedReader:
    """Return a reader of obstore as a file."""
    return io.BufferedReader(_Raw(reader), BLOCK)
