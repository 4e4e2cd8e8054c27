"""Deliver alerts to one receiver: read the topic, put the alerts of a rule together, send notices, store how far.

The first alert of a rule is a notice at once; after an accepted notice the rule has its next one after a pause, with all
alerts since. So a storm is a notice now and one a minute, whose counts add up to its alerts.

What is stored when is in jobs/strandline/alerting/courier.py. A receiver that is away does not stop the reading, and a
broker that is away does not stop the sending; each is tried again after pauses of its own. So is what fails for another
reason: a process that ends would deliver nothing to the others either.

On an object store a process that was suspended for longer than its lease goes on beside its successor. The books are replaced
only as this process stored them, and before each notice, so it sends nothing that its successor does not know, and ends.
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import uuid4

import confluent_kafka
import orjson

from strandline.alerting.alert_rule import Severity
from strandline.alerting.notice import Alert, Digest, NoAlertError, Payload, RuleWords, Sink, notice
from strandline.core.errors import DataError, LakeError, TransientError
from strandline.core.topic import Topic
from strandline.engine.kafka.topic_log import Log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import FencedError, HeldError, hold
from strandline.engine.runtime.outage import Pause, absence, skipped_in_outage
from strandline.engine.runtime.processes import own
from strandline.engine.service.condition import LOCK, STORED, process

# Read alerts for one receiver, on from where its books are, and count each record in them for what it is.
#
# What the topic no longer holds cannot be delivered; that is logged as an error and counted, and the reading goes on at what
# it holds. To stop there would keep every later alert from the people on call as well. A topic that was made anew is read from
# its beginning.


# How far a receiver of alerts has got them: the offsets that were read, and what of it was not accepted yet.
#
# Both are one file, which is replaced whole. So an alert that was read is in an accepted notice, in a notice that waits or
# among the alerts of the next one, whenever the process is killed:
#
# What was read is what was delivered, waits, is a copy, is below the severity, is from history or was passed over.
#
# Why no consumer group of Kafka: it would store the offsets, in another place than the alerts that were read and wait for
# their rule's next notice. Either those were lost in a crash, or the group stayed behind the oldest of them.
#
# A notice is stored before it is sent. One that is sent again, because a crash came before its acceptance was stored, is
# the same to the last byte; the receiver knows it by its ``delivery_id``.
#
# A receiver that is away costs no memory: each rule has at most one notice that waits, and a digest that counts.


@dataclass(slots=True, kw_only=True)
class Books:
    """What is stored about one receiver.

    Args:
        receiver: What people call it.
        topic: The id that the cluster gave to the topic; empty before the first look.
        offsets: The next offset to read, by partition.
        digests: Alerts that are in no notice yet, by rule.
        outbox: Notices that were not accepted yet, by rule, the next one to send first.
        noticed: When each rule had its last notice.
        read: Records, since the receiver was named first; so are the counts below.
        copies: Alerts that were raised again.
        below: Alerts of a severity that the receiver does not get.
        from_history: Alerts on events that were old when they were raised; gold.alerts has them.
        passed_over: Records that are no alerts.
        delivered: Alerts in notices that were accepted.
        notices: Those notices.
        expired: Offsets that the topic did not keep until they were read.
        lag: Offsets that are not read yet.
        away: What is waited for.
        at: When this was stored.
        holder: A name of the process that stores it. It makes the stored text another one as soon as a process has taken
            over, so what its predecessor would store after that is refused.
    """

    receiver: str
    topic: str = ""
    offsets: dict[int, int] = field(default_factory=dict)
    digests: dict[str, Digest] = field(default_factory=dict)
    outbox: dict[str, Payload] = field(default_factory=dict)
    noticed: dict[str, datetime] = field(default_factory=dict)
    read: int = 0
    copies: int = 0
    below: int = 0
    from_history: int = 0
    passed_over: int = 0
    delivered: int = 0
    notices: int = 0
    expired: int = 0
    lag: int | None = None
    away: str | None = None
    at: str = ""
    holder: str = ""

    @property
    def waiting(self) -> int:
        """Return how many alerts are in no accepted notice yet."""
        counts = [each.count for each in self.digests.values()]
        return sum(counts) + sum(int(each["count"]) for each in self.outbox.values())

    def add(self, alert: Alert) -> None:
        """Put an alert into the digest of its rule."""
        digest = self.digests.get(alert.rule)
        self.digests[alert.rule] = digest.plus(alert) if digest else Digest.of(alert)

    def accepted(self, rule: str, now: datetime) -> None:
        """Take a notice out of the outbox."""
        notice = self.outbox.pop(rule)
        self.noticed[rule] = now
        self.delivered += notice["count"]
        self.notices += 1

    def text(self) -> str:
        """Return it as it is stored."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()


def books(place: Place, receiver: str) -> tuple[Books, str | None]:
    """Return what is stored about a receiver and the tag of its file, or the books of a new one.

    Raises:
        DataError: What is stored cannot be read.
    """
    found = place.tagged()
    if found is None:
        return Books(receiver=receiver), None
    try:
        return _read(json.loads(found[0])), found[1]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{place} cannot be read: {error}",
            hint="remove it, and the receiver begins as a new one; gold.alerts has all alerts.",
            file=str(place),
        ) from error


def _read(stored: dict[str, Any]) -> Books:
    return Books(
        **{
            **stored,
            "offsets": {int(number): end for number, end in stored["offsets"].items()},
            "digests": {rule: Digest.read(each) for rule, each in stored["digests"].items()},
            "noticed": {rule: datetime.fromisoformat(at) for rule, at in stored["noticed"].items()},
        }
    )


# What all couriers of a process share: the topic, the limits, the words of the rules, the clock and the log.


class Logger(Protocol):
    """What a courier needs of a logger of structlog (jobs/strandline/engine/runtime/log_files.py)."""

    def info(self, event: str, *words: object, **figures: object) -> object:
        """Log what is as it should be."""

    def warning(self, event: str, *words: object, **figures: object) -> object:
        """Log what passes by itself."""

    def error(self, event: str, *words: object, **figures: object) -> object:
        """Log what may need a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What all couriers share.

    Args:
        lake: Where it is stored how far each receiver is.
        topic: What is read.
        locate: Returns where Kafka is.
        options: Properties of its client.
        every: Returns the shortest time between two notices of a rule.
        least: The lowest severity that is delivered.
        words: Returns what people read of a rule.
        clock: Returns the time.
        log: Where each step is logged.
        from_the_first: Whether a new receiver gets the alerts that the topic holds already.
    """

    lake: Lake
    topic: Topic
    locate: Callable[[], str]
    options: Mapping[str, str]
    every: Callable[[str], timedelta]
    least: Severity
    words: Callable[[str], RuleWords]
    clock: Callable[[], datetime]
    log: Logger
    from_the_first: bool = False


REMEMBERED = 100_000
"""Records of a partition: 300 alerts a second for five minutes, and about 30 MB. A copy that comes later counts twice."""


class RecentIds:
    """Remembers ids, partition by partition, in the order of offsets.

    The ids of the last alerts of a topic, by which a copy of an alert is known.

    After a crash the alerts since the last checkpoint are raised again with the same ids (jobs/strandline/alerting/one_plan.py), and the key
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

    def _take(self, messages: "Iterable[confluent_kafka.Message]") -> None:
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

    def _remember(self, message: "confluent_kafka.Message") -> None:
        try:
            alert = Alert.of(message)
        except NoAlertError:
            return
        self._recent.is_copy(*place(message), alert.id)


def place(message: "confluent_kafka.Message") -> tuple[int, int]:
    """Return the partition and the offset of a record."""
    return message.partition() or 0, message.offset() or 0


WAIT = 0.2
"""Seconds that a round waits for a record."""

OFTEN = 1.0
"""Seconds between two writes of what need not be stored at once."""


class Courier:
    """Delivers to one receiver; within the lease its thread calls ``tend`` again and again, or ``drain`` once."""

    def __init__(self, sink: Sink, desk: Desk) -> None:
        """Prepare; nothing is read yet."""
        self.sink, self._desk = sink, desk
        self.books = Books(receiver=sink.shown)
        self._place = desk.lake.deliveries / f"{sink.name}{STORED}"
        self._inbox = Inbox(self.books, desk)
        self._reads, self._sends, self._stores = Pause(), Pause(), Pause()
        self._reasons: dict[Pause, str] = {}
        self._stored, self._stored_at = "", 0.0
        self._tag: str | None = None

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Be the only one that delivers to this receiver, from where the last one stopped.

        Raises:
            TransientError: Another process does.
            DataError: What is stored about the receiver cannot be read.
        """
        lock = self._desk.lake.deliveries / f"{self.sink.name}{LOCK}"
        try:
            with hold(lock, json.dumps(own()), waits=False):
                self.books, self._tag = books(self._place, self.sink.shown)
                self.books.away, self.books.holder = None, uuid4().hex
                self._inbox = Inbox(self.books, self._desk)
                with skipped_in_outage():
                    self._store(at_once=True)
                try:
                    yield
                finally:
                    self._inbox.close()
        except HeldError as error:
            holder = process(error.note) or {}
            raise TransientError(
                f"alerts are delivered to {self.sink.shown} already, by process {holder.get('pid')}",
                hint="stop it (it ends on Ctrl-C), or name another receiver.",
            ) from error

    def tend(self) -> None:
        """Read what has come and send what is due, having waited a moment for it."""
        if self._reads.is_due():
            self._try(self._reads, lambda: self._inbox.read(WAIT))
        else:
            time.sleep(WAIT)
        self._close(self._is_due)
        if self.books.outbox and self._sends.is_due():
            self._try(self._sends, self._send)
        if self._stores.is_due():
            self._try(self._stores, self._keep)

    def drain(self) -> None:
        """Read the topic to its present end, and send all of it, a notice a rule.

        Raises:
            TransientError: Kafka or the receiver is away; what was read is stored, and sent the next time.
        """
        try:
            self._inbox.drain()
            self._send()  # what an earlier one could not send
            self._close(lambda _: True)
            self._send()
        except TransientError as error:
            self.books.away = error.message
            raise
        finally:
            self.end()

    def end(self) -> None:
        """Store where it is."""
        with skipped_in_outage():
            self._store(at_once=True)

    def _close(self, is_due: Callable[[str], bool]) -> None:
        """Make notices of the digests of rules that are due and have no notice that waits."""
        for rule in [each for each in self.books.digests if is_due(each)]:
            if rule not in self.books.outbox:
                digest = self.books.digests.pop(rule)
                self.books.outbox[rule] = notice(digest, self.sink.name, self._desk.words(rule))

    def _is_due(self, rule: str) -> bool:
        noticed = self.books.noticed.get(rule)
        if noticed is None:
            return True
        # A clock that was set back must not silence the rule.
        return not timedelta(0) <= self._desk.clock() - noticed < self._desk.every(rule)

    def _send(self) -> None:
        """Send what is in the outbox until one is not accepted; that one is the last the next time.

        Raises:
            TransientError: One was not accepted.
        """
        outbox = self.books.outbox
        self._store(at_once=True)
        for rule in list(outbox):
            waiting = outbox[rule]
            try:
                self.sink.send(waiting)
            except Exception:
                outbox[rule] = outbox.pop(rule)
                raise
            self.books.accepted(rule, self._desk.clock())
            self._sends.well()  # one that is never accepted must not hold back the others
            self._store(at_once=False)
            self._desk.log.info(
                "delivered",
                receiver=self.sink.shown,
                rule=rule,
                alerts=waiting["count"],
                id=waiting["delivery_id"],
            )
        self._store(at_once=True)

    def _try(self, pause: Pause, work: Callable[[], None]) -> None:
        """Read, send or store; what fails is tried again after a pause, and each reason is logged once."""
        try:
            work()
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  # the other of both, and the other receivers, go on
            pause.failed()
            if pause is self._reads:
                self._inbox.close()
            self._failed(pause, error)
        else:
            pause.well()
            if self._reasons.pop(pause, None):
                self._desk.log.info("goes on", receiver=self.sink.shown)
        self.books.away = "; ".join(self._reasons.values()) or None

    def _failed(self, pause: Pause, error: Exception) -> None:
        away = absence(error)
        reason = away.message if away else str(error)
        if self._reasons.get(pause) == reason:
            return
        self._reasons[pause] = reason
        if away:
            self._desk.log.warning("waits", receiver=self.sink.shown, reason=reason)
        else:
            self._desk.log.error("failed", receiver=self.sink.shown, exc_info=error)

    def _keep(self) -> None:
        with skipped_in_outage():
            self._store(at_once=False)

    def _store(self, *, at_once: bool) -> None:
        """Store the books if they are not those that are stored; now, or if that was a second ago.

        Raises:
            FencedError: Another process has taken over.
        """
        if not at_once and time.monotonic() - self._stored_at < OFTEN:
            return
        for rule in [each for each in self.books.noticed if self._is_due(each)]:
            del self.books.noticed[rule]  # it holds nothing back any more
        self._stored_at = time.monotonic()
        if self.books.text() != self._stored:
            self.books.at = self._desk.clock().isoformat(timespec="seconds")
            text = self.books.text()
            tag = self._place.exchange(text, self._tag)
            if tag is None:
                raise FencedError(
                    f"another process delivers alerts to {self.sink.shown} now, because this one did not renew its lease",
                    hint="let the other go on; it has all that this one was to deliver.",
                    books=str(self._place),
                )
            self._stored, self._tag = text, tag


# Host couriers: a thread and a lease for each receiver, so that one that is away does not stop the others.


POLL = 0.5


class DeliveryHost:
    """Delivers to several receivers until it is stopped, or once."""

    def __init__(self, couriers: Sequence[Courier], stop: threading.Event) -> None:
        """Prepare; nothing is read yet."""
        self._couriers, self._stop = couriers, stop
        self._error: Exception | None = None

    @property
    def books(self) -> list[Books]:
        """Return the figures of all receivers."""
        return [courier.books for courier in self._couriers]

    def serve(self, look: Callable[["DeliveryHost"], None]) -> None:
        """Deliver until stopped; ``look`` is called about twice a second.

        Raises:
            TransientError: Another process delivers to one of the receivers.
            Exception: What a courier does not try again: its books cannot be stored.
        """
        with ExitStack() as held:
            for courier in self._couriers:
                held.enter_context(courier.lease())
            threads = [
                threading.Thread(target=self._tend, args=(courier,)) for courier in self._couriers
            ]
            for thread in threads:
                thread.start()
            try:
                while not self._stop.wait(POLL):
                    look(self)
            finally:
                self._stop.set()
                for thread in threads:
                    thread.join()
        if self._error is not None:
            raise self._error

    def drain(self) -> None:
        """Deliver to each receiver what there is, then end.

        Raises:
            LakeError: It failed for a receiver, the first of them; the others have got what there is.
        """
        failures = []
        for courier in self._couriers:
            try:
                with courier.lease():
                    courier.drain()
            except LakeError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _tend(self, courier: Courier) -> None:
        try:
            while not self._stop.is_set():
                courier.tend()
            courier.end()
        except Exception as error:  # noqa: BLE001  # the host raises it
            self._error = error
            self._stop.set()
