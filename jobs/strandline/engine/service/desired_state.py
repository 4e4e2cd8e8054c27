"""The desired state of a lake's always-on stream: run, suspended by a process at work, or not run.

The process that raises alerts has a desired state of its own, in a file of its own.

It is recorded because a stopped stream and a dead one look the same. A watchdog restarts only a stream that was asked
to run (jobs/strandline/engine/service/stream_health.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import is_there, own

DELAYS = tuple(timedelta(seconds=seconds) for seconds in (0, 30, 60, 120, 240))
"""The delay before each attempt to restart, counted from the attempt before it; after the last one an alarm is sent."""

LONGEST_SUSPENSION = timedelta(hours=3)
"""How long a process on another host, which cannot be seen from here, may suspend the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The last request.

    Args:
        runs: Whether the stream is to run.
        at: The time of the request, as text.
        by: Who asked.
        why: The reason, if one was given.
        words: The options with which the stream is started.
        attempts: The times of its restarts since it was last well.
        gave_up: When the alarm was sent after the last attempt.
        rest: The process that has suspended the stream until it is done, and when.
        alerted: Tables for whose failures an alarm was sent.
    """

    runs: bool
    at: str
    by: str
    why: str = ""
    words: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    gave_up: str | None = None
    rest: Mapping[str, Any] | None = None
    alerted: tuple[str, ...] = ()

    def next_at(self) -> datetime | None:
        """Return when the stream may be restarted; None when all attempts are used up."""
        tried = len(self.attempts)
        if self.gave_up or tried >= len(DELAYS):
            return None
        if not tried:
            return datetime.fromisoformat(self.at)
        return datetime.fromisoformat(self.attempts[-1]) + DELAYS[tried]

    def is_suspended(self, now: datetime) -> bool:
        """Return whether the process that suspended the stream still runs; a killed one would never start it again."""
        if self.rest is None:
            return False
        seen = is_there(self.rest)
        if seen is not None:
            return seen
        return abs(now - datetime.fromisoformat(self.rest["at"])) < LONGEST_SUSPENSION

    def suspended(self, now: datetime) -> "Order":
        """Return the request with the stream suspended by this process."""
        return replace(self, rest={**own(), "at": now.isoformat(timespec="seconds")})

    def tried(self, now: datetime) -> "Order":
        """Return the request with one more attempt, and without a suspension."""
        attempts = (*self.attempts, now.isoformat(timespec="seconds"))
        return replace(self, attempts=attempts, rest=None)

    def given_up(self, now: datetime) -> "Order":
        """Return the request with the time at which the alarm was sent."""
        return replace(self, gave_up=now.isoformat(timespec="seconds"))

    def well(self) -> "Order":
        """Return the request without attempts, because the stream is well again."""
        return replace(self, attempts=(), gave_up=None)


def order(lake: Lake, file: Place | None = None) -> Order | None:
    """Return the last request, or None when there was none.

    Args:
        lake: The lake.
        file: The request, if it is not that of the stream of tables.
    """
    text = (file or lake.order).text()
    if text is None:
        return None
    fields = json.loads(text)
    fields.setdefault("alerted", fields.pop("told_of", ()))  # its key in an older lake
    lists = {name: tuple(fields.get(name, ())) for name in ("words", "attempts", "alerted")}
    return Order(**{**fields, **lists})


def write(lake: Lake, asked: Order, file: Place | None = None) -> None:
    """Record a request."""
    (file or lake.order).put(json.dumps(asdict(asked), indent=1))
