"""How far tables of bronze are behind their topics, asked beside the heart of a stream.

A cluster that is away answers after many seconds that it does not. A heart that waited for it would fall silent, and a
stream that is silent is killed and started again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from jobs.core.table import Table
from jobs.run.ends import ends_of
from jobs.run.lake import Lake

EVERY = 1.0


class Gauge:
    """Keeps the last answer for each table; None where the topic cannot be asked."""

    def __init__(
        self,
        tables: Sequence[Table],
        lake: Lake,
        *,
        address: Callable[[], str | None],
        options: Mapping[str, str],
        stop: threading.Event,
    ) -> None:
        """Prepare; nothing is asked yet."""
        self._tables = tables
        self._lake = lake
        self._address = address
        self._options = options
        self._stop = stop
        self.lags: dict[str, int | None] = {table.id: None for table in tables}

    def start(self) -> None:
        """Ask again and again until the stream is stopped."""
        threading.Thread(target=self._ask, name="gauge", daemon=True).start()

    def _ask(self) -> None:
        while self._tables:
            for table in self._tables:
                self.lags[table.id] = self._lag(table)
            if self._stop.wait(EVERY):
                return

    def _lag(self, table: Table) -> int | None:
        address = self._address()
        if address is None or not self._lake.exists(table):
            return None
        try:
            found = ends_of(table, self._lake, address, self._options)
        except Exception:  # noqa: BLE001  # a figure that cannot be had ends nothing; the table itself says what is wrong
            return None
        return sum(part.lag for part in found.values())
