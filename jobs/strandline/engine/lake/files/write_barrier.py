"""Let this process, and all that it starts, write below some folders and nowhere else: Linux's Landlock.

A notebook runs what is typed: Python, DuckDB, Spark. Each has a hundred ways to write a file, so none of them is asked: the
kernel of the operating system refuses. It needs no privilege, holds for every program that is started afterwards, the JVM among
them, and cannot be taken back. Reading, programs and the network are as before. Elsewhere nothing is barred, and the caller says so.

Linux has it since 5.13, but bars the emptying of a file (``truncate``) only since 6.2: half a barrier is refused, because who
believes in it loses a table. No version bars what changes no content: ``chmod`` and ``chown``, times (``utime``), extended
attributes (``setxattr``), each of a file's owner alone. A notebook that must not do these either gets a user of its own.

Why by ctypes: the three calls have no function in Python, and the packages that wrap them are not kept up.
"""

import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from strandline.core.errors import DefinitionError

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the calls, which are the same on all processors that came after them."""

VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38

WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Writing, removing and making files, folders, links, sockets and pipes."""
REFER = 1 << 13
BARRED = CHANGES | REFER | TRUNCATE
LEAST = 3
"""The first version of Landlock that knows all of these."""
NOT_BARRED = "modes, owners, times and extended attributes of files (chmod, chown, utime, setxattr)"
"""What a session may still change of files that are its user's."""


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def bar_writes(but: Iterable[Path]) -> bool:
    """Refuse all writing from now on, but below some folders; return whether this machine can.

    Args:
        but: Folders or files that exist.

    Raises:
        DefinitionError: The kernel bars a part of it only.
    """
    if platform.system() != "Linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    if version < 1:
        return False
    refuse_half(version)
    ruleset = library.syscall(
        CREATE_RULESET,
        ctypes.byref(ctypes.c_uint64(BARRED)),
        ctypes.c_size_t(8),
        ctypes.c_uint32(0),
    )
    _refuse_failed(ruleset)
    for path in but:
        allowed = BARRED if path.is_dir() else BARRED & (WRITE_FILE | TRUNCATE)
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


def refuse_half(version: int) -> None:
    """Refuse a version of Landlock that lets files be emptied.

    Raises:
        DefinitionError: It does.
    """
    if version < LEAST:
        raise DefinitionError(
            f"this kernel bars a notebook from writing files, but not from emptying them (Landlock {version}, not {LEAST})",
            hint="use Linux 6.2 or newer, or work on a copy: `strandline snapshot` and `strandline restore`.",
            version=version,
        )


def _refuse_failed(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
