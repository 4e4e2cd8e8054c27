"""The lease of a table and the turn to commit to it, where the lake is on an object store (jobs/strandline/engine/storage/locks.py)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from strandline.engine.runtime.settings import lease_seconds
from strandline.engine.storage.place import Place
from strandline.engine.storage.store_lease import StoreLease, fence, take, take_again

_LEASES: dict[Place, list[StoreLease]] = {}

_FREE: dict[Place, tuple[int, str]] = {}
"""The epoch and the tag with which this process has released a turn last: one pair a table. Mostly no other process takes the
turn meanwhile, and then it is taken again by one request."""


def leases(path: Place) -> Sequence[StoreLease]:
    """Return the leases by which this process may commit to a table's folder."""
    return _LEASES.get(path, ())


@contextmanager
def lease(path: Place, folders: Sequence[Place]) -> Iterator[bool]:
    """Hold a lease for the length of the block, unless another process renews it; yield whether it is held.

    Args:
        path: Its object.
        folders: The tables that it is for; in each the commits of a holder that did not release it are refused.
    """
    held = take(path, lease_seconds())
    if held is None:
        yield False
        return
    held.keep()
    try:
        for folder in folders:
            if held.is_taken_over:
                fence(folder, held)
            _LEASES.setdefault(folder, []).append(held)
        yield True
    finally:
        for folder in folders:
            if held in leases(folder):
                _LEASES[folder].remove(held)
        held.release()


@contextmanager
def turn(wait: Callable[[Callable[[], bool]], None], path: Place, life: float) -> Iterator[None]:
    """Hold the turn to commit for the length of the block.

    Args:
        wait: Waits until an attempt succeeds.
        path: Its object.
        life: Seconds after which another process takes it over.
    """
    held = list[StoreLease]()

    def could_take() -> bool:
        free = _FREE.pop(path, None)
        found = take_again(path, *free, life) if free else None
        found = found or take(path, life)
        held.extend([found] if found else [])
        return found is not None

    wait(could_take)
    try:
        yield
    finally:
        tag = held[0].release()
        if tag is not None:
            _FREE[path] = held[0].epoch, tag
