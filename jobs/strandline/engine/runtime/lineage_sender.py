"""Send events to a receiver of OpenLineage, from a thread of their own.

Where they go is OpenLineage's own configuration: ``OPENLINEAGE_URL``, ``openlineage.yml`` and what else its client reads. Where it
names nothing there is no sender, and the client is not even imported.

A receiver that is down or slow holds up nothing: an event is put into a queue of bounded length, and one that finds it full is
dropped. At its end a program waits for the queue for seconds at most. Each reason for a failure is reported once.
"""

import atexit
import queue
import re
import threading
import time
from collections.abc import Callable
from functools import cache

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent

from strandline.core.errors import DefinitionError

LENGTH = 1_000
"""Events that wait: a run of a table has two, so a receiver may be away for some hundred runs."""

PATIENCE = 3.0
"""Seconds that a program waits at its end for what is not sent."""

USER = re.compile(r"//[^/@\s]+@")
"""The user of an address, who may have a password."""

NOT_SENT = "console"
"""What the client does with events where no receiver is configured."""


class Sender:
    """Sends events in the order in which they came."""

    def __init__(
        self, client: OpenLineageClient, on_failure: Callable[[str], None], length: int = LENGTH
    ) -> None:
        """Begin to send.

        Args:
            client: Knows the receiver.
            on_failure: Called with a reason why events are not sent.
            length: How many events may wait.
        """
        self._client, self._on_failure = client, on_failure
        self._waiting = queue.Queue[RunEvent](length)
        self._reason = ""
        threading.Thread(target=self._work, name="lineage", daemon=True).start()

    def send(self, event: RunEvent) -> None:
        """Send an event later, without waiting for anything."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self.failed(f"more than {self._waiting.maxsize:,} events wait; newer ones are dropped")

    def failed(self, reason: str) -> None:
        """Report why an event is not sent, unless that was the last reason as well; without a password in an address."""
        reason = USER.sub("//", reason)
        if reason != self._reason:
            self._reason = reason
            self._on_failure(f"no lineage is sent: {reason}")

    def drain(self, patience: float = PATIENCE) -> None:
        """Wait until all events are sent, but no longer than some seconds."""
        until = time.monotonic() + patience
        while self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _work(self) -> None:
        while True:
            event = self._waiting.get()
            try:
                self._client.emit(event)
            except Exception as error:  # noqa: BLE001  # a receiver may refuse in any way, and no run depends on it
                self.failed(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            else:
                self._reason = ""
            finally:
                self._waiting.task_done()


def receiver() -> tuple[str, str | None]:
    """Return the kind of the receiver that the configuration names, and its address where it has one.

    Raises:
        DefinitionError: The client cannot read the configuration.
    """
    try:
        transport = OpenLineageClient().transport
    except Exception as error:
        # Each transport refuses in a way of its own; nothing of it is repeated, it may have a key.
        raise DefinitionError(
            f"OpenLineage's client does not take its configuration: {type(error).__name__}",
            hint="correct the variables OPENLINEAGE_… or openlineage.yml.",
        ) from error
    return str(transport.kind), getattr(transport, "url", None)


@cache
def sender(on_failure: Callable[[str], None]) -> Sender | None:
    """Return the sender of this process; None where the configuration names no receiver."""
    client = OpenLineageClient()
    if client.transport.kind == NOT_SENT:
        return None
    where = client.config.facets.source_code_location
    if where.repo_url is None:
        # Asked for git's facet, the client sends the address of the remote as git has it, often with a password in it.
        where.disabled = True
    made = Sender(client, on_failure)
    atexit.register(made.drain)
    return made
