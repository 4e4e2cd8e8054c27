"""Read alerts for one receiver, on from where its books are, and count each record in them for what it is.

What the topic no longer holds cannot be delivered; that is logged as an error and counted, and the reading goes on at what
it holds. To stop there would keep every later alert from the people on call as well. A topic that was made anew is read from
its beginning.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from confluent_kafka import Message

from strandline.alerting.delivery.delivery_books import Books
from strandline.alerting.delivery.delivery_desk import Desk
from strandline.alerting.delivery.notice import Alert, NoAlertError
from strandline.alerting.rules.alert_rule import Severity
from strandline.engine.kafka.topic_log import Log

REMEMBERED = 100_000
"""Records of a partition: 300 alerts a second for five minutes, and about 30 MB. A copy that comes later counts twice."""


class RecentIds:
    """Remembers ids, partition by partition, in the order of offsets.

    The ids of the last alerts of a topic, by which a copy of an alert is known.

    After a crash the alerts since the last checkpoint are raised again with the same ids (jobs/strandline/alerting/rules/alert.py), and the key
    of a record is its id, so a copy is in the partition of its original. How far back copies lie is bounded by what is
    raised within one checkpoint of real time mode, five minutes.

    Why offsets and not a time: which records are copies then follows from the topic alone. A process that starts reads the
    last records before its position again, and knows what its predecessor knew; nothing of it is stored.
    """

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


LOOK = 1.0
"""Seconds between two looks at the ends of the topic."""

RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Inbox:
    """The topic of alerts, as one receiver reads it."""

    def __init__(self, books: Books, desk: Desk) -> None:
        """Connect to nothing yet."""
        self._books, self._desk = books, desk
        self._recent = RecentIds()
        self._log: Log | None = None
        self._looked_at = 0.0

    def read(self, seconds: float) -> None:
        """Count what has come, having waited for the first record for some seconds at most."""
        log = self._log or self._opened()
        if time.monotonic() - self._looked_at >= LOOK:
            self._look(log)
        self._take(log.arrived(seconds))

    def drain(self) -> None:
        """Count all up to the present end.

        Raises:
            TransientError: Kafka is away.
        """
        log = self._opened()
        ends = {number: end for number, (_, end) in log.bounds().items()}
        self._take(log.records({number: self._books.offsets[number] for number in ends}, ends))
        self._books.offsets |= ends
        self._books.lag = 0

    def close(self) -> None:
        """Disconnect; the next ``read`` connects anew."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _opened(self) -> Log:
        """Connect, go to where the books are, and remember the ids of the records before that."""
        self.close()
        log = self._log = Log(self._desk.locate(), self._desk.options, self._desk.topic)
        bounds = log.bounds()
        self._begin(bounds, log.identity())
        before = {
            number: max(first, self._books.offsets[number] - self._recent.remembered)
            for number, (first, _) in bounds.items()
        }
        self._recent = RecentIds()
        for message in log.records(before, self._books.offsets):
            self._remember(message)
        log.follow(self._books.offsets)
        return log

    def _begin(self, bounds: Mapping[int, tuple[int, int]], topic: str) -> None:
        """Choose where to read on: where the books are, as far as the topic is the same and still holds that."""
        books, is_new = self._books, not self._books.topic
        if is_new and not self._desk.from_the_first:
            books.offsets = {number: end for number, (_, end) in bounds.items()}
        elif books.topic != topic:
            books.offsets = {}
            if not is_new:
                self._desk.log.warning("topic made anew", receiver=books.receiver)
        books.topic = topic
        expired = 0
        for number, (first, end) in bounds.items():
            offset = books.offsets.get(number, first)
            expired += max(first - offset, 0)
            books.offsets[number] = first if offset > end else max(offset, first)
        if expired:
            books.expired += expired
            self._desk.log.error(
                "expired",
                receiver=books.receiver,
                message=f"{expired:,} offsets expired before they were read; gold.alerts may have their alerts",
            )

    def _look(self, log: Log) -> None:
        """Measure how far behind the reading is, and follow partitions that were added."""
        books, bounds = self._books, log.bounds()
        added = {number: first for number, (first, _) in bounds.items()}
        if added.keys() - books.offsets.keys():
            books.offsets = added | books.offsets
            log.follow(books.offsets)
        books.lag = sum(end - books.offsets[number] for number, (_, end) in bounds.items())
        self._looked_at = time.monotonic()

    def _take(self, messages: Iterable[Message]) -> None:
        books = self._books
        bad = []
        for message in messages:
            number, offset = place(message)
            books.read += 1
            try:
                alert = Alert.of(message)
            except NoAlertError as error:
                bad.append((f"{message.topic()}/{number}/{offset}", str(error)))
            else:
                if self._recent.is_copy(number, offset, alert.id):
                    books.copies += 1
                elif alert.from_history:
                    books.from_history += 1
                elif RANK[alert.severity] < RANK[self._desk.least]:
                    books.below += 1
                else:
                    books.add(alert)
            books.offsets[number] = offset + 1
        if bad:
            books.passed_over += len(bad)
            first, reason = bad[0]
            self._desk.log.warning(
                "passed over",
                receiver=books.receiver,
                records=len(bad),
                first=first,
                reason=reason,
            )

    def _remember(self, message: Message) -> None:
        try:
            alert = Alert.of(message)
        except NoAlertError:
            return
        self._recent.is_copy(*place(message), alert.id)


def place(message: Message) -> tuple[int, int]:
    """Return the partition and the offset of a record."""
    return message.partition() or 0, message.offset() or 0
