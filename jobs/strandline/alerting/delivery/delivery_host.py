"""Host couriers: a thread and a lease for each receiver, so that one that is away does not stop the others."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from strandline.alerting.delivery.courier import Courier
from strandline.alerting.delivery.delivery_books import Books
from strandline.core.errors import LakeError

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
