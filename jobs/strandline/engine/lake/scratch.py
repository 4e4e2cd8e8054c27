"""Folders for a while: made for a block and removed after it, also when the block is killed.

A kill leaves the folder behind. It has the record of its maker, so the next that makes one in the same folder removes
those of makers that are gone. A program that the maker started may outlive it and write on; it holds a lease in the
folder, which then stays until the lease is free.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.locks import is_held
from strandline.engine.runtime.processes import is_there, own

MAKER = "_maker.json"
"""The file in such a folder with the process that made it."""


@contextmanager
def scratch(within: Place | None = None) -> Iterator[Place]:
    """Make an empty folder for the length of the block; only the record of its maker is in it.

    Args:
        within: The folder in which to make it; the system's own for such folders when None.
    """
    if within:
        for left in abandoned(within):
            left.remove(if_possible=True)
    if within and not within.is_local:
        made = within / f"strandline-{uuid4().hex}"
        (made / MAKER).put(json.dumps(own()))
        try:
            yield made
        finally:
            made.remove(if_possible=True)
        return
    folder = within.make().local if within else None
    with tempfile.TemporaryDirectory(
        prefix="strandline-", dir=folder, ignore_cleanup_errors=True
    ) as name:
        if within:
            (Place(name) / MAKER).put(json.dumps(own()))
        yield Place(name)


def is_scratch(lake: Place) -> bool:
    """Return whether a lake is in such a folder."""
    return (lake.parent / MAKER).is_file()


def abandoned(within: Place) -> list[Place]:
    """Return the scratch folders whose maker is gone and in which no other process writes a table.

    One without a record, or with that of another host, is not among them: its maker is unknown.
    """
    return [place for name in within.names() if _is_abandoned(place := within / name)]


def _is_abandoned(place: Place) -> bool:
    try:
        maker = json.loads((place / MAKER).text() or "{}")
    except ValueError:
        return False
    if "pid" not in maker or is_there(maker) is not False:
        return False
    leases = (place / name / "_leases" for name in place.names())
    return not any(is_held(folder / lock) for folder in leases for lock in folder.names())
