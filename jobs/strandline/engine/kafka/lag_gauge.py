"""The lag of bronze tables behind their topics, measured in a thread beside a stream's heartbeat.

A query of a cluster that is away fails only after many seconds. If the heartbeat waited for it, it would stop, and a
stream without a heartbeat is killed and started again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from strandline.core.table import Table
from strandline.engine.kafka.lag import ends_of
from strandline.engine.storage.lake import Lake

EVERY = 1.0


class Gauge:
    """Keeps the last known lag of each table; None where the topic does not answer."""

    def __init__(
        self,
        tables: Sequence[Table],
        lake: Lake,
        *,
        address: Callable[[], str | None],
        options: Mapping[str, str],
        stop: threading.Event,
    ) -> None:
        """Prepare; no cluster is queried yet."""
        self._tables = tables
        self._lake = lake
        self._address = address
        self._options = options
        self._stop = stop
        self.lags: dict[str, int | None] = {table.id: None for table in tables}

    def start(self) -> None:
        """Measure again and again until the stream is stopped."""
        threading.Thread(target=self._measure, name="gauge", daemon=True).start()

    def _measure(self) -> None:
        while self._tables:
            for table in self._tables:
                self.lags[table.id] = self._lag(table)
            if self._stop.wait(self._lake.pause(EVERY)):
                return

    def _lag(self, table: Table) -> int | None:
        try:
            address = self._address()
            if address is None or not self._lake.exists(table):
                return None
            found = ends_of(table, self._lake, address, self._options)
        except Exception:  # noqa: BLE001  # a missing figure ends nothing; the table itself reports the error
            return None
        return sum(part.lag for part in found.values())
