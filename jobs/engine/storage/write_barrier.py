"""Let this process, and all that it starts, write below some folders and nowhere else: Linux's Landlock.

A notebook runs what is typed: Python, DuckDB, Spark. Each has a hundred ways to write a file, so none of them is asked: the
kernel of the operating system refuses. It needs no privilege, holds for every program that is started afterwards, the JVM among
them, and cannot be taken back. Reading, programs and the network are as before. Linux has it since 5.13; elsewhere nothing is
barred, and the caller says so.

Why by ctypes: the three calls have no function in Python, and the packages that wrap them are not kept up.
"""

import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the calls, which are the same on all processors that came after them."""

VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38

WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Writing, removing and making files, folders, links, sockets and pipes."""
REFER = 1 << 13
SINCE = {REFER: 2, TRUNCATE: 3}
"""Rights that a later version of Landlock added."""


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def bar_writes(but: Iterable[Path]) -> bool:
    """Refuse all writing from now on, but below some folders; return whether this machine can.

    Args:
        but: Folders or files that exist.
    """
    if platform.system() != "Linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    if version < 1:
        return False
    barred = CHANGES | sum(right for right, since in SINCE.items() if version >= since)
    ruleset = library.syscall(
        CREATE_RULESET,
        ctypes.byref(ctypes.c_uint64(barred)),
        ctypes.c_size_t(8),
        ctypes.c_uint32(0),
    )
    _refuse_failed(ruleset)
    for path in but:
        allowed = barred if path.is_dir() else barred & (WRITE_FILE | TRUNCATE)
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _Beneath(allowed, folder)
        _refuse_failed(
            library.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
        )
        os.close(folder)
    _refuse_failed(library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _refuse_failed(library.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)
    return True


def _refuse_failed(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
