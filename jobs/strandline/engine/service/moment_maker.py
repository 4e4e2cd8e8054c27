"""Moments beside a stream: noted every some seconds, and made where none comes by itself.

Tables over one source cut it at commits of their own. As long as each batch reads all that is there, the cuts meet again and again,
and a moment is found (jobs/strandline/engine/ask/find_moment.py), which costs the tables nothing. Where none was for some time, bronze
waits with its next batch until silver has read what bronze has, and gold what silver has: then all are level, and bronze goes on.
What that costs is the time for which events stay in Kafka.

Why bronze waits, and not every table until its readers are there: one table that waits is enough, and no state is held, no batch is
cut. Why a batch above does not end at a commit that is named: Spark's source of a table takes as many commits as its limit admits,
and a limit changes with a start of the query alone.
"""

import threading
import time
from collections.abc import Callable, Sequence

from strandline.core.table import Ingested, Table
from strandline.engine.ask.find_moment import Finder
from strandline.engine.ask.moments import note
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.outage import first_line, skipped_in_outage

PATIENCE = 30.0
"""Seconds for which bronze waits at most."""

LOOKS = 0.5
"""Seconds between two looks while it waits."""

LONGEST = 3_600.0
"""Seconds after which it is tried again at the latest, where waiting has brought no moment before."""


class MomentMaker:
    """Notes moments until it is stopped, and says when bronze is to wait."""

    def __init__(  # noqa: PLR0913  # of what, until when, how often, and who hears of it
        self,
        lake: Lake,
        tables: Callable[[], Sequence[Table]],
        stop: threading.Event,
        *,
        every: float,
        within: float,
        says: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is looked at.

        Args:
            lake: The lake.
            tables: Returns all of its tables, as they are declared now.
            stop: Ends it; no table waits any more.
            every: Seconds between two looks.
            within: Seconds without a moment after which bronze waits for one; 0 never.
            says: Hears why none can be noted, once for each reason.
        """
        self._lake, self._tables, self._says = lake, tables, says
        self._every, self._within = every, within
        self._pause = within
        """Seconds without a moment after which bronze waits next; more after it has waited in vain."""
        self._finder = Finder(lake)
        self._stop = stop
        self._last = 0
        self._level_at = time.monotonic()
        self._held_since: float | None = None
        self._absent: set[str] = set()
        """The tables that are behind, and that waiting has not brought in: they are waited for no more."""
        self._reason = ""

    def holds(self, table: Table) -> bool:
        """Return whether a table is to wait with its next batch."""
        is_held = self._held_since is not None and not self._stop.is_set()
        return is_held and isinstance(table, Ingested)

    def start(self) -> None:
        """Look again and again, in a thread of its own."""
        threading.Thread(target=self._run, name="moments", daemon=True).start()

    def _run(self) -> None:
        every = max(LOOKS, self._lake.pause(self._every))
        while not self._stop.wait(LOOKS if self._held_since is not None else every):
            try:
                with skipped_in_outage():
                    self.look()
            except Exception as error:  # noqa: BLE001  # no table depends on it
                self._let_go()
                if (reason := f"{type(error).__name__}: {first_line(error)}") != self._reason:
                    self._says(f"no moment is noted: {reason}")
                self._reason = reason

    def look(self) -> None:
        """Note the newest moment; let bronze wait, or go on."""
        found = note(self._lake, self._tables(), "a stream", self._finder)
        self._reason = ""
        now, behind = time.monotonic(), {*found.behind} if found else set[str]()
        is_new = found is not None and (found.number != self._last or self._finder.is_newest(found))
        if found is not None and is_new:
            self._last = found.number
        if is_new and behind <= self._absent:
            self._level_at, self._pause, self._held_since = now, self._within, None
            self._absent = behind
        elif self._held_since is not None:
            if now - self._held_since > PATIENCE:
                self._absent |= behind
                self._let_go()
        elif self._within and now - self._level_at > self._pause:
            self._held_since = now

    def _let_go(self) -> None:
        """Let bronze go on without a moment, and try again later."""
        if self._held_since is not None:
            self._held_since = None
            self._level_at, self._pause = time.monotonic(), min(2 * self._pause, LONGEST)
