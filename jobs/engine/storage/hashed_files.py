"""Copies of files with their hashes: written down when they are made, and compared when they are read again.

The hash is that of the bytes that were written, taken on their way, so a copy is read once. Times are kept: Delta asks a
commit's file when it was written.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.engine.storage.place import Place

BLOCK = 1 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """A file of a snapshot.

    Args:
        path: Where it is, seen from the lake.
        size: Its bytes.
        written: When it was written, in nanoseconds since 1970.
        sha256: The hash of its bytes.
    """

    path: str
    size: int
    written: int
    sha256: str


def hashed_copy(source: Place, target: Place, path: str) -> Hashed:
    """Copy a file and return its hash.

    Raises:
        FileNotFoundError: It is gone.
        OSError: It cannot be read or written.
    """
    target.parent.make()
    with source.local.open("rb") as old, target.local.open("wb") as new:
        digest, stat = hashlib.sha256(), os.fstat(old.fileno())
        while block := old.read(BLOCK):
            digest.update(block)
            new.write(block)
    os.utime(target, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    return _hashed(path, target.local, digest.hexdigest())


def hashed_link(source: Place, target: Place, path: str) -> Hashed:
    """Give a file a second name and return its hash; copy it where that is another file system."""
    if not link(source, target):
        return hashed_copy(source, target, path)
    with target.local.open("rb") as file:
        return _hashed(path, target.local, _digest(file))


def link(source: Place, target: Place) -> bool:
    """Give a file a second name, if it is on the same file system and has not too many; return whether it has."""
    target.parent.make()
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.EMLINK, errno.EPERM}:
            return False
        raise
    return True


def is_unchanged(file: Place, known: Hashed | None) -> bool:
    """Return whether a file was not written since its hash was taken."""
    if known is None:
        return False
    stat = file.local.stat()
    return (stat.st_size, stat.st_mtime_ns) == (known.size, known.written)


def write_lines(file: Place, lines: Iterator[Hashed]) -> str:
    """Write a list of files as it is made, a line each; return the hash of the list."""
    file.parent.make()
    digest = hashlib.sha256()
    with file.local.open("w", encoding="utf-8") as out:
        for each in lines:
            line = json.dumps(asdict(each), separators=(",", ":")) + "\n"
            digest.update(line.encode())
            out.write(line)
    return digest.hexdigest()


def read_lines(file: Place) -> Iterator[Hashed]:
    """Yield the files of such a list; none where there is no list."""
    with suppress(FileNotFoundError), file.local.open(encoding="utf-8") as lines:
        for line in lines:
            found: Mapping[str, str | int] = json.loads(line)
            yield Hashed(**found)  # type: ignore[arg-type]  # as it was written


def settle_on_disk() -> None:
    """Wait until everything that was written is on the disk, so that a lost machine does not lose what was acknowledged."""
    os.sync()


def hash_of(file: Place) -> str:
    """Return the hash of a file's bytes."""
    with file.local.open("rb") as content:
        return _digest(content)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _hashed(path: str, file: Path, digest: str) -> Hashed:
    stat = file.stat()
    return Hashed(path=path, size=stat.st_size, written=stat.st_mtime_ns, sha256=digest)
