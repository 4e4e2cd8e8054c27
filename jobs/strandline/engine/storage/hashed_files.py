"""Copies of files with their hashes: written down when they are made, and compared when they are read again.

The hash is that of the bytes that were written, taken on their way, so a copy is read once. Within an object store the server
copies, and the copy is read. Times are kept: in a folder as those of the copies, and always in the list, because a store
gives each object the time at which it was written there.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass

from strandline.engine.storage.place import Listed, Place

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


def hashed_copy(source: Place, target: Place, path: str, written: int) -> Hashed:
    """Copy a file with the time at which it was written, and return its hash.

    Raises:
        FileNotFoundError: It is gone.
        OSError: It cannot be read or written.
    """
    target.parent.make()
    digest, size = hashlib.sha256(), 0
    with closing(source.opened()) as old, target.written() as new:
        while block := old.read(BLOCK):
            digest.update(block)
            size += len(block)
            new.write(block)
    if target.is_local:
        os.utime(target, ns=(written, written))
    return Hashed(path=path, size=size, written=written, sha256=digest.hexdigest())


def hashed_link(source: Listed, target: Place, path: str) -> Hashed:
    """Give a file a second name and return its hash; copy it where that is another file system or store."""
    if not link(source.place, target):
        return hashed_copy(source.place, target, path, source.written)
    return Hashed(path=path, size=source.size, written=source.written, sha256=hash_of(target))


def link(source: Place, target: Place) -> bool:
    """Give a file a second name where that can be had: on one file system, unless it has too many, or as a server's copy.

    Returns:
        Whether it has it.
    """
    if source.bucket != target.bucket:
        return False
    if not source.is_local:
        source.copy(target)
        return True
    target.parent.make()
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.EMLINK, errno.EPERM}:
            return False
        raise
    return True


def is_unchanged(file: Listed, known: Hashed | None) -> bool:
    """Return whether a file was not written since its hash was taken."""
    return known is not None and (file.size, file.written) == (known.size, known.written)


def write_lines(file: Place, lines: Iterator[Hashed]) -> str:
    """Write a list of files as it is made, a line each; return the hash of the list."""
    file.parent.make()
    digest = hashlib.sha256()
    with file.written() as out:
        for each in lines:
            line = (json.dumps(asdict(each), separators=(",", ":")) + "\n").encode()
            digest.update(line)
            out.write(line)
    return digest.hexdigest()


def read_lines(file: Place) -> Iterator[Hashed]:
    """Yield the files of such a list; none where there is no list."""
    with suppress(FileNotFoundError), closing(file.opened()) as lines:
        while line := lines.readline():
            found: Mapping[str, str | int] = json.loads(bytes(line))
            yield Hashed(**found)  # type: ignore[arg-type]  # as it was written


def settle_on_disk() -> None:
    """Wait until everything that was written is on the disk, so that a lost machine does not lose what was acknowledged."""
    os.sync()


def hash_of(file: Place) -> str:
    """Return the hash of a file's bytes.

    Raises:
        FileNotFoundError: It is gone.
    """
    digest = hashlib.sha256()
    with closing(file.opened()) as content:
        while block := content.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
