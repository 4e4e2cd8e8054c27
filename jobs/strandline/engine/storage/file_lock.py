"""A lock between programs of one machine: a file that one of them holds, with a note about itself in it.

The kernel releases it when the program ends, however it ends. It belongs to the open file and not to the process, so two
threads exclude each other as well, and to look whether it is held does not release one's own. The leases of tables are
other locks (jobs/strandline/engine/storage/locks.py), because the JVM holds those.

On an object store it is a lease between programs of any machine (jobs/strandline/engine/storage/store_lease.py), whose note is the record
of its holder. One that was suspended for longer than its lease goes on beside its successor: what is written under such a
lock is written by ``Place.exchange``, which refuses it.
"""

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.engine.runtime.settings import lease_seconds
from strandline.engine.storage import store_lease
from strandline.engine.storage.place import Place

AGAIN = 0.2
"""Seconds between two attempts to take a lease that another program renews."""


class HeldError(Exception):
    """Another program holds a lock."""

    def __init__(self, note: str) -> None:
        """Take what the holder wrote about itself."""
        super().__init__(note)
        self.note = note


@contextmanager
def hold(place: Place, note: str = "", *, waits: bool = True) -> Iterator[None]:
    """Hold a lock for the length of the block.

    Args:
        place: The file; it stays when the lock is released.
        note: What others read in it meanwhile, in a folder; on a store that is the record of this process.
        waits: Whether to wait until it is free.

    Raises:
        HeldError: Another program holds it, and this one does not wait.
    """
    if not place.is_local:
        with _leased(place, waits=waits):
            yield
        return
    place.parent.make()
    with place.local.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise HeldError(file.read()) from error
        file.truncate(0)
        file.write(note)
        file.flush()
        yield


def note_of_holder(place: Place) -> str | None:
    """Return what the holder of a lock wrote about itself; None where no program holds it."""
    if not place.is_local:
        return json.dumps(found) if (found := store_lease.holder(place)) else None
    try:
        with place.local.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
    except FileNotFoundError:
        pass
    return None


@contextmanager
def _leased(place: Place, *, waits: bool) -> Iterator[None]:
    """Hold a lease on a store for the length of the block."""
    while (held := store_lease.take(place, lease_seconds())) is None:
        if not waits:
            raise HeldError(json.dumps(store_lease.holder(place)))
        time.sleep(AGAIN)
    held.keep()
    try:
        yield
    finally:
        held.release()
