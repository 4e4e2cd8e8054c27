"""Do the same to many files: one after the other in a folder, several at once where each waits for the answer of a store."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from strandline.engine.storage.place import Place

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 16
"""Requests that wait for their answers at the same time."""

AHEAD = 256
"""Files that are begun before the result of the first of them is taken."""


def each_done(
    work: Callable[[Item], Result], items: Iterable[Item], *, among: Iterable[Place]
) -> Iterator[Result]:
    """Yield the result for each item, in their order.

    Args:
        work: What to do.
        items: With what.
        among: Places that it reads or writes; where all are of this machine, nothing is done ahead.
    """
    if all(place.is_local for place in among):
        yield from map(work, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while batch := [*islice(left, AHEAD)]:
            yield from pool.map(work, batch)
