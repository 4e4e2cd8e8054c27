"""The clusters that a topic was read from, one after the other: on each its offsets begin again, and no two events have one place.

The place of a record (topic, partition, offset) is its identity in every table. On another cluster, and in a topic that was
made anew under its name, the same places mean other records. So the partitions of the second cluster have numbers of their
own in the lake, from 1,000,000 on: partition 3 of it is 1000003. Topic and offset are those of Kafka, so that a function
that reads a topic by its name, and a person with Kafka's own tools, find what they look for; and the ledger counts each
partition of each cluster by itself, without a gap or an overlap.

Only what asks Kafka translates (jobs/strandline/engine/kafka/slices.py).
"""

from collections.abc import Iterable, Mapping

STAY = 1_000_000
"""More than any topic has partitions."""

Part = tuple[str, int]


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
