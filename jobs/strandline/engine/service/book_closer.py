"""Close books from time to time, beside the process that writes them.

It is a thread of its own, because the first time on an old lake takes seconds, in which a heartbeat would be late.
Books that cannot be closed stay open, and cost their readers more entries; the next attempt is in a minute.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from strandline.engine.accounting.close_ledger import Closed

PAUSE = 60.0
"""Seconds between two looks whether books are to be closed."""

KEPT = 100
"""How many results are kept until they are taken."""


class BookCloser(threading.Thread):
    """Closes books until it is ended."""

    def __init__(self, close: Callable[[], Sequence[Closed]]) -> None:
        """Prepare; ``close`` closes the books that have many commits, and returns which."""
        super().__init__(name="books", daemon=True)
        self._close = close
        self._ended = threading.Event()
        self._news: deque[Closed | Exception] = deque(maxlen=KEPT)

    def run(self) -> None:
        """Look once a minute."""
        while not self._ended.wait(PAUSE):
            try:
                self._news.extend(self._close())
            except Exception as error:  # noqa: BLE001  # it is logged, and no batch needs closed books
                self._news.append(error)

    def end(self) -> None:
        """End after the running look."""
        self._ended.set()

    def news(self) -> list[Closed | Exception]:
        """Take what was closed since the last call, and the errors."""
        taken = list[Closed | Exception]()
        while self._news:
            taken.append(self._news.popleft())
        return taken
