"""Ask the process that writes a table to hand it over for a while; it goes on by itself when it is given back.

A table has one writer, which keeps its lease for days. Work that needs the table as it is between two batches (a promotion,
a repair of time that the stream still owns) writes a request beside the leases. The writer ends its batch, so the table's
rows and its checkpoint are at one exact offset, releases the lease, and takes it again once the request is gone.

A request of the dead binds no stream: that of a process that has ended counts for nothing, and one of another host, where this
cannot be seen, only as long as it is renewed.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, WriterWatch, waited_for
from strandline.engine.runtime.outage import skipped_in_outage
from strandline.engine.runtime.processes import is_there, own

PATIENCE = 300.0
"""Seconds to wait for the writer: it ends its batch first."""

AGAIN = 0.5

RENEWED = 30.0
"""Seconds between two renewals of a request."""

EXPIRES = timedelta(minutes=3)
"""How long a request from another host counts without a renewal."""


def asker(table: Table, lake: Lake, now: datetime) -> str | None:
    """Return who asks for a table, and for what; None when no process does that is still there."""
    found = _read(_request(table, lake))
    if found is None or not _counts(found, now):
        return None
    return f"{found['why']} by process {found['pid']} on {found['host']}"


@contextmanager
def handed_over(  # noqa: PLR0913  # whose table, for what, and how long to wait
    table: Table,
    lake: Lake,
    clock: Callable[[], datetime],
    why: str,
    *,
    note: Callable[[str], None] = lambda _: None,
    patience: float = PATIENCE,
) -> Iterator[WriterWatch]:
    """Have a table without a writer for the length of the block; the lease itself is taken by the work.

    Yields what says whether it is still so, for work that takes no lease.

    Args:
        table: The table.
        lake: Its lake.
        clock: The time.
        why: What for, in a word.
        note: Called with a sentence when a writer has to be waited for.
        patience: Seconds to wait for it.

    Raises:
        TransientError: Another process has asked for it, or its writer does not hand it over.
    """
    request = _request(table, lake)
    other = asker(table, lake, clock())
    if other is not None:
        raise _asked_already(table, other)
    renewal = _Renewal(request, why, clock)
    renewal.start()
    try:
        if not renewal.is_own():
            raise _asked_already(table, asker(table, lake, clock()))
        writer = _await(table, lake, why, note, patience)
        with waited_for(table, lake, patience):
            yield writer
    finally:
        renewal.end()


class _Renewal(threading.Thread):
    """Keeps a request alive."""

    def __init__(self, request: Place, why: str, clock: Callable[[], datetime]) -> None:
        super().__init__(name="handover", daemon=True)
        self._request, self._why, self._clock = request, why, clock
        self._ended = threading.Event()
        self._write()

    def run(self) -> None:
        while not self._ended.wait(RENEWED):
            with skipped_in_outage():
                self._write()

    def end(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()
        if self.is_own():
            self._request.remove(if_possible=True)

    def is_own(self) -> bool:
        """Return whether the request is this process's; of two that asked at once the one that wrote last has it."""
        found = _read(self._request) or {}
        return all(found.get(name) == value for name, value in own().items())

    def _write(self) -> None:
        asked = {**own(), "why": self._why, "at": self._clock().isoformat()}
        self._request.parent.make()
        self._request.put(json.dumps(asked))


def _await(
    table: Table, lake: Lake, why: str, note: Callable[[str], None], patience: float
) -> WriterWatch:
    """Wait until no process writes the table.

    Raises:
        HasWriterError: Its writer does not let go of it.
    """
    deadline, is_noted = time.monotonic() + patience, False
    writer = WriterWatch(table, lake)
    while True:
        try:
            writer.refuse()
        except HasWriterError as error:
            if time.monotonic() > deadline:
                raise HasWriterError(
                    f"{error.message}, and it was not handed over within {patience:.0f} s",
                    hint="a stream of an older version hands nothing over, and one in a long batch ends it first: "
                    f"`strandline pause`, {why} again, `strandline resume`.",
                    table=table.id,
                ) from error
            if not is_noted:
                note(f"{error.message}; it hands {table.id} over after its batch")
                is_noted = True
        else:
            return writer
        time.sleep(lake.pause(AGAIN))


def _asked_already(table: Table, other: str | None) -> TransientError:
    return TransientError(
        f"{table.id} is handed over already: {other}",
        hint="wait until that is done, or stop it; then type the same again.",
        table=table.id,
    )


def _request(table: Table, lake: Lake) -> Place:
    # Not under the table's name, by which its leases are listed.
    return lake.lease_of(table.id).parent / f"handover.{table.id}.json"


def _read(request: Place) -> Mapping[str, Any] | None:
    try:
        found = json.loads(request.text() or "null")
    except ValueError:  # read while it was written
        return None
    return found if isinstance(found, dict) else None


def _counts(found: Mapping[str, Any], now: datetime) -> bool:
    seen = is_there(found)
    if seen is not None:
        return seen
    return abs(now - datetime.fromisoformat(found["at"])) < EXPIRES
