"""How an always-on stream is doing, as someone who looks once in a while can tell, and what to do about it.

Only what speaks for itself is acted on: a stream that is gone, that says nothing, or of which a table has rows to read
and commits none. What may have good reasons (more arrives than is read; no event has come that would move the
watermark) is a warning, and judged over several looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from jobs.core.errors import DefinitionError
from jobs.run.order import Order

SILENT = timedelta(seconds=60)
"""A heart beats once a second."""

STUCK = timedelta(minutes=10)
"""So long a table may have rows to read and commit none; a batch of the largest size takes well under a minute."""

WELL = timedelta(minutes=5)
"""So long a stream that was started again must live."""

LOOKS = 10
"""So many looks are remembered, and a trend is one that all of them show."""

MUCH = 1_000
"""Lag and state below this are nobody's concern, however they grow."""


class Ill(StrEnum):
    """What is wrong with a stream as a whole."""

    DEAD = "dead"
    SILENT = "silent"
    STUCK = "stuck"


class Act(StrEnum):
    """What to do about it."""

    NOTHING = "nothing"
    WAIT = "wait"
    RESTART = "restart"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of one table at a moment."""

    at: str
    batches: int
    read: int
    lag: int | None
    watermark: str | None
    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something about one table that a person should see."""

    table: str
    what: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is wrong, in words, and what to do about it."""

    act: Act
    ill: Ill | None = None
    says: str = ""


def watch(
    asked: Order | None, beat: Mapping[str, Any] | None, now: datetime, *, starting: bool = False
) -> Watch:
    """Say what is to be done about a stream; one that starts is not dead because it has not spoken yet."""
    if asked is None or not asked.runs or asked.is_resting(now):
        return Watch(act=Act.NOTHING)
    found = _ill(asked, beat, now)
    if found is None:
        return Watch(act=Act.NOTHING)
    ill, says = found
    if ill is Ill.DEAD and starting:
        return Watch(act=Act.WAIT)
    is_hopeless = (
        ill is Ill.DEAD and beat is not None and beat.get("failed") == DefinitionError.kind
    )
    return Watch(act=_act(asked, now, is_hopeless=is_hopeless), ill=ill, says=says)


def is_well(asked: Order, beat: Mapping[str, Any] | None, now: datetime) -> bool:
    """Tell whether a stream has lived long enough since it was started last for earlier failures to be forgotten.

    That it has committed something is not enough: one that dies of its third batch commits two after every start.
    """
    if not beat or not beat["alive"] or not asked.attempts:
        return False
    return now - datetime.fromisoformat(asked.attempts[-1]) > WELL


def looks(beat: Mapping[str, Any]) -> dict[str, Look]:
    """Return what a stream says of its tables."""
    names = [name for name in Look.__slots__ if name != "at"]
    told = {
        table: {"state": 0, **pulse} for table, pulse in beat["tables"].items()
    }  # one of yesterday says less
    return {
        table: Look(at=beat["at"], **{name: pulse[name] for name in names})
        for table, pulse in told.items()
    }


def warned(table: str, seen: Sequence[Look]) -> Iterator[Warned]:
    """Say what several looks at a table, the last one newest, show together."""
    if len(seen) < LOOKS:
        return
    first, last = seen[0], seen[-1]
    over = f"from {first.at} to {last.at}"
    lags = [look.lag or 0 for look in seen]
    if _grows(lags):
        says = (
            f"{table} falls behind: {lags[0]:,} rows were to be read, and {lags[-1]:,} are, {over}"
        )
        yield Warned(table=table, what="lag", says=says)
    states = [look.state for look in seen]
    if _grows(states) and states[-1] >= 2 * states[0]:
        says = f"{table} remembers more and more: {states[0]:,} rows, then {states[-1]:,}, {over}"
        yield Warned(table=table, what="state", says=says)
    if last.watermark is not None and last.watermark == first.watermark and last.read > first.read:
        rows = last.read - first.read
        says = f"{table} read {rows:,} rows {over}, and its watermark stays at {last.watermark}"
        yield Warned(table=table, what="watermark", says=says)


def _grows(values: Sequence[int]) -> bool:
    never_less = all(a <= b for a, b in pairwise(values))
    return never_less and values[-1] > max(values[0], MUCH)


def _ill(asked: Order, beat: Mapping[str, Any] | None, now: datetime) -> tuple[Ill, str] | None:
    if beat is None or not beat["alive"]:
        last = f"; it was last heard of at {beat['at']}" if beat else " and never was"
        return Ill.DEAD, f"the stream is not running{last}"
    age = now - datetime.fromisoformat(beat["at"])
    if age > SILENT:
        return Ill.SILENT, f"process {beat['pid']} has said nothing for {age.total_seconds():.0f} s"
    begun = max([asked.at, *asked.attempts[-1:]])
    for table, pulse in beat["tables"].items():
        last = pulse.get("behind", pulse["at"])  # one of yesterday says less
        since = now - datetime.fromisoformat(max(begun, last or begun))
        waits = pulse["gate"] or pulse.get("away")
        if pulse["lag"] and not waits and since > STUCK:
            minutes = since // timedelta(minutes=1)
            says = f"{table} has {pulse['lag']:,} rows to read and committed none for {minutes} minutes"
            return Ill.STUCK, says
    return None


def _act(asked: Order, now: datetime, *, is_hopeless: bool) -> Act:
    """Say what to do; what is wrong in the code or in a setting is not mended by trying again."""
    due = asked.next_at()
    if due is None or is_hopeless:
        return Act.NOTHING if asked.gave_up else Act.GIVE_UP
    return Act.RESTART if now >= due else Act.WAIT
