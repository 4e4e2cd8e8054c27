"""Folders for a while: made for a block and removed after it, whatever ended the block but a kill."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.engine.storage.place import Place


@contextmanager
def scratch(within: Place | None = None) -> Iterator[Place]:
    """Make an empty folder for the length of the block.

    Args:
        within: The folder in which to make it; the system's own for such folders when None.
    """
    folder = within.make().local if within else None
    with tempfile.TemporaryDirectory(
        prefix="strandline-", dir=folder, ignore_cleanup_errors=True
    ) as made:
        yield Place(made)
