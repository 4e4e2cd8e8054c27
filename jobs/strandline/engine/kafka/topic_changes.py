"""What can happen to a topic below its reader: records expire, it is made anew, its cluster is another one.

Records that Kafka removed before they were read: which they are, and the error with which their reader stops.

A reader does not go on at what is left, as most do by default: it stops, and a person decides
(jobs/strandline/engine/repair/accept_loss.py).
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from strandline.core.errors import DataError, DefinitionError

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


# The clusters that a topic was read from, one after the other: on each its offsets begin again, and no two events have one place.
#
# The place of a record (topic, partition, offset) is its identity in every table. On another cluster, and in a topic that was
# made anew under its name, the same places mean other records. So the partitions of the second cluster have numbers of their
# own in the lake, from 1,000,000 on: partition 3 of it is 1000003. Topic and offset are those of Kafka, so that a function
# that reads a topic by its name, and a person with Kafka's own tools, find what they look for; and the ledger counts each
# partition of each cluster by itself, without a gap or an overlap.
#
# Only what asks Kafka translates (jobs/strandline/engine/kafka/slices.py).


STAY = 1_000_000
"""More than any topic has partitions."""


def stays(parts: Iterable[Part]) -> dict[str, int]:
    """Return for each topic on which of its clusters it is: 0 for the first, which most never leave.

    >>> stays([("readings", 0), ("readings", 1_000_000), ("orders", 3)])
    {'readings': 1, 'orders': 0}
    """
    found: dict[str, int] = {}
    for topic, number in parts:
        found[topic] = max(found.get(topic, 0), number // STAY)
    return found


def current(positions: Mapping[Part, int]) -> dict[Part, int]:
    """Return the positions on the cluster on which each topic is now.

    >>> current({("readings", 0): 17, ("readings", 1_000_000): 3, ("orders", 0): 5})
    {('readings', 1000000): 3, ('orders', 0): 5}
    """
    now = stays(positions)
    return {part: at for part, at in positions.items() if is_on(part, now.get(part[0], 0))}


def is_on(part: Part, stay: int) -> bool:
    """Return whether a partition is one of a cluster; rows that came from files are of none."""
    return stay * STAY <= part[1] < (stay + 1) * STAY


def number_in_kafka(part: Part) -> int:
    """Return the number that a partition has on its cluster."""
    return part[1] % STAY


# A topic that was deleted, or made anew under its name, since a reader read it: what is lost, and the one way on.
#
# The place of a record (topic, partition, offset) is its identity in every table. The records of the new topic have the places of
# those of the former one, so they cannot come into the same rows. Under a name of its own they can: a table that names another
# topic goes on in its lake, with what it has read of the former one.


WAY = (
    "its new records would have the places of those that were read. Let its producers write to a topic of another name, "
    "name that in the table's declaration, and the table goes on in this lake with all that it has; or `strandline move` "
    "reads the new one, and another cluster, under numbers of its own "
    "(infra/runbooks/lost.md)."
)


class RecreatedError(DataError):
    """A topic is another one than its reader has read."""

    def __init__(self, reader: str, topic: str, read: Mapping[Part, int]) -> None:
        """Name what is lost."""
        lost = lost_of(topic, read)
        super().__init__(
            f"{reader} read another topic of the name {topic}: the topic was recreated; {lost}",
            hint=WAY,
            table=reader,
            topic=topic,
            lost_from={f"{name}/{number}": at for (name, number), at in read.items()},
        )


def deleted(absent: str, reader: str, topic: str, read: Mapping[Part, int]) -> DefinitionError:
    """Return the refusal of a topic that is not there any more and was read: it must not be made again.

    Args:
        absent: The sentence that it is not there.
        reader: The table or the feed that read it.
        topic: Its name.
        read: The offsets up to which it was read.
    """
    return DefinitionError(
        f"{absent} any more, and {reader} has read it; {lost_of(topic, read)}",
        hint=f"do not make it anew: {WAY} A bronze table of several topics goes on without it by "
        f"`strandline retire TABLE --topic {topic} --leave-unread`.",
        table=reader,
        topic=topic,
    )


def lost_of(topic: str, read: Mapping[Part, int]) -> str:
    """Return what of a topic is lost that is gone: all that it had beyond what was read.

    >>> lost_of("readings", {("readings", 0): 12, ("other", 0): 3})
    'what the former one had from offset 12 of partition 0 on is lost'
    """
    parts = [(number, at) for (name, number), at in sorted(read.items()) if name == topic]
    from_where = " and ".join(f"offset {at} of partition {number}" for number, at in parts)
    return f"what the former one had from {from_where or 'where it was read'} on is lost"


def identities_in(stream: str) -> dict[str, str]:
    """Return the ids of topics by their names, as a ledger entry has them.

    >>> identities_in("orders@f3,readings@a1")
    {'orders': 'f3', 'readings': 'a1'}
    """
    return dict(topic.rsplit("@", 1) for topic in stream.split(",") if "@" in topic)
