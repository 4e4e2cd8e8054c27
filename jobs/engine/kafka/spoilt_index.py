"""Where a time begins in a partition whose time index a broken clock has spoilt: found by reading single records."""

import time
from collections.abc import Sequence

from confluent_kafka import Message

from jobs.engine.kafka.topic_log import Log

FEW = 1_000
"""Records whose clocks are ahead that are passed over in a row; where there are more, the partition waits at them."""

PATIENCE = 10.0
"""Seconds to wait for a record."""

POLL = 0.5


class SpoiltIndex:
    """A part of a partition that is searched by time, without the records whose clocks are ahead.

    A search is some twenty reads of a record, and the searches for one slice are for moments ever closer to each other, so
    most of what they ask for is known.
    """

    def __init__(self, log: Log, partition: int, start: int, end: int, *, ahead: int) -> None:
        """Prepare; nothing is read yet.

        Args:
            log: The topic.
            partition: The partition.
            start: The first offset that is searched.
            end: The one after the last.
            ahead: The first millisecond that is beyond every true clock.
        """
        self._log, self._partition, self._ahead = log, partition, ahead
        self._start, self._end = start, end
        self._known: dict[int, int | None] = {}

    def first_at(self, moment: int) -> int:
        """Return the first offset at or after a time in milliseconds, the end where there is none."""
        low, high = self._start, self._end
        while low < high:
            middle = (low + high) // 2
            at = self._time(middle)
            if at is None or at >= moment:
                high = middle
            else:
                low = middle + 1
        return low

    def _time(self, offset: int) -> int | None:
        """Return the time of the record at or after an offset whose clock is right; None where none is near."""
        at, seen, deadline = offset, 0, time.monotonic() + PATIENCE
        while offset not in self._known and seen < FEW and time.monotonic() < deadline:
            found = self._log.look(self._partition, at, POLL)
            self._learn(offset, found)
            seen += len(found)
            at = (found[-1].offset() or 0) + 1 if found else at
            if at >= self._end:
                break
        return self._known.setdefault(offset, None)

    def _learn(self, offset: int, found: Sequence[Message]) -> None:
        """Note the times of records that were read together, each also for the offsets before it that have none."""
        begins = offset
        for message in found:
            own, moment = message.offset() or 0, message.timestamp()[1]
            if own < self._end and moment < self._ahead:
                self._known.update(dict.fromkeys(range(begins, own + 1), moment))
                begins = own + 1
