"""Where the lakes of the core's tests are: in folders of this machine, or on a server of one of the three kinds of store.

With ``TEST_LAKE=s3a``, ``gs`` or ``abfss`` the core of the suite (the mark ``core``) runs on an object store, and nothing else of it
does. A test names a lake by a path below its ``tmp_path`` in both cases; the place of that path is the one thing that
differs, so no test knows which it is.
"""

import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strandline.engine.lake.place import FILE, Place
from strandline.engine.runtime.settings import ABFSS, GS, S3A
from tests.support.clouds import CONTAINER
from tests.support.s3_server import BUCKET

VARIABLE = "TEST_LAKE"
SCHEME = os.environ.get(VARIABLE) or FILE
ROOTS = {FILE: "", S3A: BUCKET, GS: BUCKET, ABFSS: CONTAINER}
if SCHEME not in ROOTS:
    raise ValueError(f"{VARIABLE} is {' or '.join(ROOTS)}, and not {SCHEME}")
SERVERS = {S3A: "s3", GS: "gcs", ABFSS: "azure"}
"""The fixture with the server of each kind of store."""

AT_ONCE = 8
"""Objects that are copied at the same time: one takes some milliseconds, most of which are the server's."""


def is_on_store() -> bool:
    """Return whether the lakes of the core are on the object store."""
    return SCHEME != FILE


def place(path: Path) -> Place:
    """Return the place of a lake, or of what is in it, that a test names by a path."""
    return Place(f"{ROOTS[SCHEME]}{path}", SCHEME) if is_on_store() else Place.of(path)


def beside(lake: Place, suffix: str) -> Path:
    """Return a file of this machine for the log of a program that works on a lake."""
    return Path(lake.path.removeprefix(ROOTS[SCHEME]) + suffix)


def copy(folder: Place, to: Place) -> None:
    """Copy a folder with all that it holds; from a disk to a store as well."""
    if folder.is_local and to.is_local:
        shutil.copytree(folder, to, dirs_exist_ok=True)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda file: _copy(file, to / file.below(folder)), folder.files()))


def _copy(file: Place, to: Place) -> None:
    if file.scheme == to.scheme:
        file.copy(to)
    else:
        to.put_bytes(file.bytes() or b"")


def write(file: Place, lines: Iterable[str]) -> None:
    """Write a file without the syncs that make the library's own writes outlast a power cut."""
    with file.written() as stream:
        stream.write("".join(lines).encode())
