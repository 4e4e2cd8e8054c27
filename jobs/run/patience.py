"""Waiting for what is away, for as long as it takes.

A stream that is always on is not ended by a broker that restarts, a disk that is full or a long commit of somebody
else's: it asks again, each time after a longer pause, and says meanwhile for what it waits. Only the table that needs
what is away waits; it keeps its lease, so nobody else takes its place.
"""

import time
from collections.abc import Callable

from jobs.core.errors import TransientError
from jobs.run.absence import absence

FIRST = 1.0
LONGEST = 30.0
"""Seconds; so long after a broker is back again at most is read from it."""

POLL = 0.05


class Patience:
    """The pauses of one table."""

    def __init__(
        self,
        hears: Callable[[TransientError | None], None],
        stopped: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin with nothing away.

        Args:
            hears: Is told what is away, at each attempt that fails, and None when the work goes on.
            stopped: Whether to wait no longer.
            clock: Seconds that pass.
            sleep: Lets some pass.
        """
        self._hears = hears
        self._stopped = stopped
        self._clock = clock
        self._sleep = sleep
        self._pause = FIRST
        self._waits = False

    def outlast(self, work: Callable[[], None]) -> None:
        """Work until it is done; where something is away, wait and begin again.

        Raises:
            Exception: Something is wrong that no waiting mends.
        """
        while not self._stopped():
            try:
                return work()
            except Exception as error:
                away = absence(error)
                if away is None:
                    raise
                self._wait(away)
        return None

    def _wait(self, away: TransientError) -> None:
        self._waits = True
        self._hears(away)
        until = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST)
        while self._clock() < until and not self._stopped():
            self._sleep(POLL)

    def well(self) -> None:
        """Hear that the work goes on; the next pause is a short one again."""
        if self._waits:
            self._waits = False
            self._pause = FIRST
            self._hears(None)


def soon(work: Callable[[], None]) -> None:
    """Work once; who waits for the end is told at once that something is away.

    Raises:
        TransientError: It is.
    """
    try:
        work()
    except Exception as error:
        away = absence(error)
        if away is None or away is error:
            raise
        raise away from error
