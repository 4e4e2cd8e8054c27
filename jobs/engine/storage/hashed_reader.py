"""A file that is hashed while it is read, so that one that is compressed or long need not be read twice."""

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import hashlib

    from _typeshed import WriteableBuffer

CHUNK = 1 << 20


class _Hashed(io.RawIOBase):
    def __init__(self, file: BinaryIO, digest: "hashlib._Hash") -> None:
        super().__init__()
        self._file, self._digest = file, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        part = self._file.read(len(view))
        self._digest.update(part)
        view[: len(part)] = part
        return len(part)


def hashed(file: BinaryIO, digest: "hashlib._Hash") -> io.BufferedReader:
    """Return a file whose bytes update a digest in their order as it is read to its end."""
    return io.BufferedReader(_Hashed(file, digest), CHUNK)
