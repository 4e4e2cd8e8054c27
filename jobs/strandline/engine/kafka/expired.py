"""Records that Kafka removed before they were read: which they are, and the error with which their reader stops.

A reader does not go on at what is left, as most do by default: it stops, and a person decides
(jobs/strandline/engine/repair/accept_loss.py).
"""

from collections.abc import Mapping
from typing import TypeAlias

from strandline.core.errors import DataError

Part: TypeAlias = tuple[str, int]
Ranges: TypeAlias = Mapping[Part, tuple[int, int]]
"""For each partition of a topic the first offset and the one after the last."""


class ExpiredError(DataError):
    """Records expired before they were read."""

    def __init__(self, reader: str, gone: Ranges) -> None:
        """Name all of them."""
        super().__init__(
            f"{reader}: {described(gone)} expired in Kafka before they were read",
            hint=f'they are lost to this lake. `strandline accept-loss {reader} --because "…"` records the loss, and it '
            "reads on at what is left; increase the topic's retention, and `strandline radar` shows what is next.",
            reader=reader,
            offsets={f"{topic}/{number}": ends for (topic, number), ends in gone.items()},
        )
        self.gone = gone


def expired(start: Mapping[Part, int], bounds: Ranges) -> dict[Part, tuple[int, int]]:
    """Return the offsets that were to be read next and are before those that Kafka has, by partition."""
    return {
        part: (offset, bounds[part][0])
        for part, offset in sorted(start.items())
        if part in bounds and offset < bounds[part][0]
    }


def described(ranges: Ranges) -> str:
    """Return ranges of offsets in words, both ends included.

    >>> described({("readings", 0): (3, 15)})
    'offsets 3 to 14 of partition 0 of readings'
    """
    return " and ".join(
        f"offsets {first} to {end - 1} of partition {number} of {topic}"
        for (topic, number), (first, end) in ranges.items()
    )


def count(ranges: Ranges) -> int:
    """Return the number of offsets in ranges."""
    return sum(end - first for first, end in ranges.values())
