"""Wait for the end of an outage, for as long as it takes.

A broker that restarts, a full disk or a long commit of another process does not end an always-on stream: it tries
again, each time after a longer pause, and reports meanwhile what it waits for. Only the table that is affected waits;
it keeps its lease, so no other process becomes its writer. Where one has become it all the same, waiting ends: who was
fenced leaves the lease, and takes it anew once it is free.

Why not tenacity: it counts the attempts of one call. Here an attempt is a stream that may run for days before the next
outage, so the work itself makes the pause short again; and a stop ends the wait without another attempt and without an
error. With both passed to tenacity as functions, its own part would be the ``while``.
"""

import time
from collections.abc import Callable

from strandline.core.errors import ReplacedError, TransientError
from strandline.engine.runtime.outage import absence

FIRST = 1.0
LONGEST = 30.0
"""Seconds; reading starts at most this long after a broker is back."""

POLL = 0.05


class Patience:
    """The pauses of one table."""

    def __init__(
        self,
        report: Callable[[TransientError | None], None],
        stopped: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin without an outage.

        Args:
            report: Receives the outage at each attempt that fails, and None when the work begins and goes on.
            stopped: Whether to stop waiting.
            clock: Returns the time in seconds.
            sleep: Waits for some seconds.
        """
        self._report = report
        self._stopped = stopped
        self._clock = clock
        self._sleep = sleep
        self._pause = FIRST
        self._waits = True  # the state is unknown until the work goes on

    def outlast(self, work: Callable[[], None]) -> None:
        """Run the work until it succeeds; after an outage wait and run it again.

        Raises:
            ReplacedError: Another process has taken over.
            Exception: The work failed for another reason than an outage.
        """
        while not self._stopped():
            try:
                return work()
            except Exception as error:
                away = absence(error)
                if away is None:
                    raise
                # Its lease is another's, and is taken again outside of this block.
                if isinstance(away, ReplacedError):
                    raise away from None if away is error else error
                self._wait(away)
        return None

    def _wait(self, away: TransientError) -> None:
        self._waits = True
        self._report(away)
        until = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST)
        while self._clock() < until and not self._stopped():
            self._sleep(POLL)

    def well(self) -> None:
        """Record that the work goes on; the next pause is a short one again."""
        if self._waits:
            self._waits = False
            self._pause = FIRST
            self._report(None)


class Pause:
    """The pauses of work beside which other work goes on: it is due again after a pause that doubles."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Be due at once."""
        self._clock = clock
        self._pause, self._due = FIRST, clock()

    def is_due(self) -> bool:
        """Return whether to try now."""
        return self._clock() >= self._due

    def failed(self) -> None:
        """Record that an attempt failed."""
        self._due = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST)

    def well(self) -> None:
        """Record that an attempt succeeded; the next pause is a short one again."""
        self._pause, self._due = FIRST, self._clock()


def soon(work: Callable[[], None]) -> None:
    """Run the work once; an outage ends it at once.

    Raises:
        TransientError: There is an outage.
    """
    try:
        work()
    except Exception as error:
        away = absence(error)
        if away is None or away is error:
            raise
        raise away from error
