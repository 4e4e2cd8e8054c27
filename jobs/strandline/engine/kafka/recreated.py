"""A topic that was deleted, or made anew under its name, since a reader read it: what is lost, and the one way on.

The place of a record (topic, partition, offset) is its identity in every table. The records of the new topic have the places of
those of the former one, so they cannot come into the same rows. Under a name of its own they can: a table that names another
topic goes on in its lake, with what it has read of the former one.
"""

from collections.abc import Mapping

from strandline.core.errors import DataError, DefinitionError

Part = tuple[str, int]

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
