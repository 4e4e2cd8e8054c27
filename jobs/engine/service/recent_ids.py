"""The ids of the last alerts of a topic, by which a copy of an alert is known.

After a crash the alerts since the last checkpoint are raised again with the same ids (jobs/rules/alert.py), and the key
of a record is its id, so a copy is in the partition of its original. How far back copies lie is bounded by what is
raised within one checkpoint of real time mode, five minutes.

Why offsets and not a time: which records are copies then follows from the topic alone. A process that starts reads the
last records before its position again, and knows what its predecessor knew; nothing of it is stored.
"""

from collections import OrderedDict

REMEMBERED = 100_000
"""Records of a partition: 300 alerts a second for five minutes, and about 30 MB. A copy that comes later counts twice."""


class RecentIds:
    """Remembers ids, partition by partition, in the order of offsets."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """Know none.

        Args:
            remembered: How many offsets back an id is known.
        """
        self.remembered = remembered
        self._ids: dict[int, OrderedDict[str, int]] = {}

    def is_copy(self, partition: int, offset: int, id_: str) -> bool:
        """Return whether an id was in one of the last records, and remember it."""
        ids = self._ids.setdefault(partition, OrderedDict())
        while ids and next(iter(ids.values())) < offset - self.remembered:
            ids.popitem(last=False)
        found = id_ in ids
        ids[id_] = offset
        ids.move_to_end(id_)
        return found
