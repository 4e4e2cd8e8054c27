"""Bring files of a lake to the disk (jobs/strandline/engine/storage/durable.py); what an object store has acknowledged is there."""

from collections.abc import Iterable

from strandline.engine.storage.durable import sync_all
from strandline.engine.storage.place import Place


def keep_files(files: Iterable[Place], *, within: Place) -> None:
    """Bring files to the disk, and their names with those of the folders up to one.

    Args:
        files: They lie in ``within`` or below.
        within: The highest folder whose names may be new.
    """
    if within.is_local:
        sync_all((file.local for file in files), within=within.local)
