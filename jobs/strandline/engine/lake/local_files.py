"""The files of a lake in a folder of this machine: what a place does there (jobs/strandline/engine/lake/place.py)."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

# What is acknowledged survives a power cut: files are synced before the name by which they are found, names after it.
#
# Neither Hadoop's local file system, on which Delta and Spark write, nor a rename syncs anything. After a power cut a file
# that was renamed a second before may be there and be empty: a Delta commit whose rows are gone, or an operator's decision
# that nothing remembers. Most of what a batch writes may be lost, because Kafka has it and it is read again; what may not
# happen is a mix, in which the later step is there and the earlier one is not. So this order holds:
#
#     1. the plan of the batch (offsets/N), before the batch is written: it decides what batch N is
#     2. the batch's data files, then its commit, then the names of both
#     3. the state of the stream (state/), before Spark marks the batch as finished
#
# What Spark writes after that (commits/N) may be lost or torn: then the batch is played again, and the ledger shows that
# it was written (torn_checkpoint.py). Measured on this project's machine: a sync takes 0.2 ms.


REFUSED = {errno.EINVAL, errno.ENOTSUP}
"""What a file system says that cannot do it."""


def sync(path: Path) -> None:
    """Bring a file's bytes, or a folder's names, to the disk; nothing where there is none, or none that can be synced.

    Some network file systems refuse to sync a folder, and some folders above a lake cannot be read.
    """
    try:
        opened = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if _flushes(opened):
            return
        os.fsync(opened)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
    finally:
        os.close(opened)


def _flushes(opened: int) -> bool:
    """Do what macOS has for it, whose ``fsync`` leaves the bytes in the drive's own memory; return whether it was done."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        return False
    try:
        fcntl.fcntl(opened, full)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return False
    return True


def sync_all(files: Iterable[Path], *, within: Path) -> None:
    """Bring files to the disk, and their names with those of the folders up to one.

    Args:
        files: They lie in ``within`` or below.
        within: The highest folder whose names may be new.
    """
    folders: set[Path] = {within}
    for file in files:
        sync(file)
        folders.update(each for each in file.parents if each.is_relative_to(within))
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        sync(folder)


def make(folder: Path) -> None:
    """Create a folder with those above it, each on the disk when this returns; nothing where it exists."""
    if folder.is_dir():
        return
    make(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def exists(path: str) -> bool:
    """Return whether there is a file or a folder."""
    return Path(path).exists()


def is_file(path: str) -> bool:
    """Return whether there is a file."""
    # As pathlib asks, in a third of its time: a list of three hundred tables asks it thousands of times.
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  # as above
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def names(path: str) -> list[str]:
    """Return the names of what lies in a folder, sorted; none where there is no folder."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208  # as is_file
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_from(path: str, first: str) -> list[str]:
    """Return the names of what lies in a folder from a name on, sorted."""
    return [name for name in names(path) if name >= first]


def files(path: str) -> Iterator[str]:
    """Yield the paths of all files of a folder and of those below it."""
    for above, _, found in os.walk(path):
        yield from (str(Path(above, name)) for name in found)


def listed(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the bytes and the time of each file of a folder and of those below it."""
    for each in files(path):
        with suppress(FileNotFoundError):  # removed meanwhile
            stat = Path(each).stat()
            yield each, stat.st_size, stat.st_mtime_ns


def size(path: str) -> int:
    """Return the bytes of a file."""
    return Path(path).stat().st_size


def modified_at(path: str) -> datetime:
    """Return when a file was written, or copied."""
    return datetime.fromtimestamp(Path(path).stat().st_mtime, tz=UTC)


def stamp(path: str) -> str:
    """Return what changes with a file, without reading it: its bytes and when it was written."""
    found = os.stat(path)  # noqa: PTH116  # as is_file
    return f"{found.st_size} {found.st_mtime_ns}"


def read(path: str) -> bytes | None:
    """Return a file's content; None where there is no file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # as is_file
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_last(path: str, count: int) -> bytes:
    """Return the last bytes of a file."""
    with Path(path).open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(-min(count, file.tell()), os.SEEK_END)
        return file.read()


def source(path: str) -> Path:
    """Return what Arrow opens to read parts of a file; it closes by itself what it opens."""
    return Path(path)


def written(path: str) -> BinaryIO:
    """Open a file to write it."""
    return Path(path).open("wb")


def put(path: str, content: bytes) -> None:
    """Write a file; a reader sees the old content or the new, never a mix."""
    draft = _draft(path, content)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(draft.parent)


def create(path: str, content: bytes) -> bool:
    """Write a file that does not exist, whole; return False where it exists, also by another process meanwhile."""
    draft = _draft(path, content)
    try:
        Path(path).hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    sync(draft.parent)
    return True


def read_tagged(path: str) -> tuple[bytes, str] | None:
    """Return a file's content and its tag; None where there is no file."""
    content = read(path)
    return None if content is None else (content, _tag(content))


def create_tagged(path: str, content: bytes) -> str | None:
    """Write a file that does not exist, and return its tag; None where it exists."""
    return _tag(content) if create(path, content) else None


def replace(path: str, content: bytes, tag: str) -> str | None:
    """Write a file that has not changed since it had a tag; return its new tag, or None where it has changed.

    Its folder is locked meanwhile, so of the processes that write in this way one wins.
    """
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = read_tagged(path)
        if found is None or found[1] != tag:
            return None
        put(path, content)
    finally:
        os.close(folder)  # which releases the lock
    return _tag(content)


def append(path: str, line: bytes) -> None:
    """Append a line to a file that is never cut; after one that a full disk or a kill cut off it begins a new line."""
    parent = Path(path).parent
    make(parent)
    with Path(path).open("a+b") as file:
        is_torn = (
            file.seek(0, os.SEEK_END) > 0 and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n"
        )
        file.write((b"\n" if is_torn else b"") + line + b"\n")
    sync_all([Path(path)], within=parent)


def copy(path: str, to: str) -> None:
    """Copy a file."""
    make(Path(to).parent)
    shutil.copyfile(path, to)


def move(path: str, to: str) -> None:
    """Rename a file or a folder; a file at the new place is replaced."""
    make(Path(to).parent)
    Path(path).replace(to)
    sync(Path(to).parent)
    sync(Path(path).parent)


def remove_file(path: str) -> None:
    """Remove a file; nothing where there is none."""
    Path(path).unlink(missing_ok=True)


def remove(path: str, *, if_possible: bool) -> None:
    """Remove a file or a link, or a folder with all that it holds; nothing where there is none."""
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path, ignore_errors=if_possible)
    else:
        Path(path).unlink(missing_ok=True)


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _draft(path: str, content: bytes) -> Path:
    """Write the content beside the file, on the disk."""
    make(Path(path).parent)
    draft = Path(path).with_name(f".{Path(path).name}.{uuid4().hex}")
    try:
        draft.write_bytes(content)
        sync(draft)
    except BaseException:
        # A full disk: a heartbeat tries it again each second, and each time would leave one.
        draft.unlink(missing_ok=True)
        raise
    return draft
