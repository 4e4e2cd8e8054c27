"""A folder of a lake as a folder of this machine, for what reads paths: itself where it is one, otherwise a copy.

A copy is brought up to date each time: a file whose size or time differs from that of its object is fetched again, and one
whose object is gone is removed. So two processes may do it at once, and a person may change an object by hand.
"""

import os
from pathlib import Path

from strandline.engine.storage.place import Place


def near_copy(folder: Place, at: Place) -> Path:
    """Return the path of a folder, having copied it to a place of this machine where it is on a store.

    Args:
        folder: A folder with few and small files.
        at: Where its copy is, or will be; used for nothing else.
    """
    if folder.is_local:
        return folder.local
    there = {file.place.below(folder): file for file in folder.listed()}
    for copied in [*at.files()]:
        if copied.below(at) not in there:
            copied.remove()
    for name, file in there.items():
        copy = at / name
        if not _is_same(copy.local, file.size, file.written):
            content = file.place.bytes()
            if content is not None:  # removed since it was listed
                copy.put_bytes(content)
                os.utime(copy, ns=(file.written, file.written))
    return at.local


def _is_same(file: Path, size: int, written: int) -> bool:
    try:
        stat = file.stat()
    except FileNotFoundError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (size, written)
