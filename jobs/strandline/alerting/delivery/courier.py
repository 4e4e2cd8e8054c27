"""Deliver alerts to one receiver: read the topic, put the alerts of a rule together, send notices, store how far.

The first alert of a rule is a notice at once; after an accepted notice the rule has its next one after a pause, with all
alerts since. So a storm is a notice now and one a minute, whose counts add up to its alerts.

What is stored when is in jobs/strandline/alerting/delivery/alert_inbox.py. A receiver that is away does not stop the reading, and a
broker that is away does not stop the sending; each is tried again after pauses of its own. So is what fails for another
reason: a process that ends would deliver nothing to the others either.

On an object store a process that was suspended for longer than its lease goes on beside its successor. The books are replaced
only as this process stored them, and before each notice, so it sends nothing that its successor does not know, and ends.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from uuid import uuid4

from strandline.alerting.delivery.alert_inbox import Books, Desk, Inbox, books
from strandline.alerting.delivery.notice import notice
from strandline.alerting.delivery.sinks import Sink
from strandline.core.errors import LakeError, TransientError
from strandline.engine.lake.store_lease import FencedError, HeldError, hold
from strandline.engine.runtime.outage import Pause, absence, skipped_in_outage
from strandline.engine.runtime.processes import own
from strandline.engine.service.receivers import LOCK, STORED, process

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
