"""What was asked of a lake's always-on stream: to run or to rest.

It is written down because a stream that is gone looks the same whether somebody stopped it or it died. Only one that
was asked to run is started again by a watchdog (jobs/run/watch.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.run.holders import is_there, own
from jobs.run.lake import Lake
from jobs.run.notes import put

DELAYS = tuple(timedelta(seconds=seconds) for seconds in (0, 30, 60, 120, 240))
"""So long after the last attempt the next one may be made; one for each attempt, and then a person is asked."""

LONGEST_REST = timedelta(hours=3)
"""So long a process on another host, which cannot be seen, may let the stream rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked last.

    Args:
        runs: Whether the stream is to run.
        at: Since when, as text.
        by: Who asked.
        why: What for, if that was said.
        words: The options with which the stream is started.
        attempts: When it was started again since it was last well.
        gave_up: When a person was asked, after the last attempt.
        rest: Which process has asked the stream to rest until it is done, and when.
    """

    runs: bool
    at: str
    by: str
    why: str = ""
    words: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    gave_up: str | None = None
    rest: Mapping[str, Any] | None = None

    def next_at(self) -> datetime | None:
        """Return when the stream may be started again; None when it was tried often enough."""
        tried = len(self.attempts)
        if self.gave_up or tried >= len(DELAYS):
            return None
        if not tried:
            return datetime.fromisoformat(self.at)
        return datetime.fromisoformat(self.attempts[-1]) + DELAYS[tried]

    def is_resting(self, now: datetime) -> bool:
        """Tell whether the stream rests for somebody who still is at work; one who was killed calls nobody back."""
        if self.rest is None:
            return False
        seen = is_there(self.rest)
        if seen is not None:
            return seen
        return now - datetime.fromisoformat(self.rest["at"]) < LONGEST_REST

    def resting(self, now: datetime) -> "Order":
        """Return it with this process as the one for which the stream rests."""
        return replace(self, rest={**own(), "at": now.isoformat(timespec="seconds")})

    def tried(self, now: datetime) -> "Order":
        """Return it with one more attempt."""
        attempts = (*self.attempts, now.isoformat(timespec="seconds"))
        return replace(self, attempts=attempts, rest=None)

    def given_up(self, now: datetime) -> "Order":
        """Return it with the moment at which a person was asked."""
        return replace(self, gave_up=now.isoformat(timespec="seconds"))

    def well(self) -> "Order":
        """Return it without attempts, because the stream did what it is there for."""
        return replace(self, attempts=(), gave_up=None)


def order(lake: Lake) -> Order | None:
    """Return what was asked last, or None when nothing ever was."""
    if not lake.order.exists():
        return None
    told = json.loads(lake.order.read_text())
    lists = {name: tuple(told[name]) for name in ("words", "attempts")}
    return Order(**{**told, **lists})


def write(lake: Lake, asked: Order) -> None:
    """Write down what is asked."""
    put(lake.order, json.dumps(asdict(asked), indent=1))
