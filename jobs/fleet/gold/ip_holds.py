"""Which device held which address, from when until when, and why it ended.

Grain: one row an address and the moment from which it was held; an open hold has no end yet.
Reads: silver.dhcp_events. Read by: investigations of who held an address.
Late data: a moment is decided once no admitted message about it can come any more, so a row is
never retracted; while a hold is open, its row is updated when the hold is renewed and when it ends.

Discover, offer and request promise nothing, so they do not reach the state: a flood of them costs no state.
"""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType
from strandline import (
    Answer,
    Emit,
    Event,
    Fold,
    Folded,
    Memory,
    State,
    Upserted,
    arrival,
    folded,
    latest_per_key,
    time_order,
)

from fleet.silver import dhcp_events

GIVES = ("ack", "renew")
ACTS = (*GIVES, "release", "decline")
"""The messages that begin, prolong or end a hold."""

OF_ACTS = ("kind", "mac", "device_id", "lease_seconds", "arrived", "_partition", "_offset")
"""The columns of a message that a step reads."""

SECOND = 1_000_000
LONGEST_LEASE = 10 * 366 * 86_400
"""In seconds; an endless lease is sent as a very large number."""

HOLD = (
    StructType()
    .add("ip", StringType())
    .add("held_us", LongType())
    .add("until_us", LongType())
    .add("leased_us", LongType())
    .add("mac", StringType())
    .add("device_id", StringType())
    .add("ended_by", StringType())
    .add("renewals", LongType())
)


class Change(NamedTuple):
    """The effect of an act on a hold.

    Args:
        ended: The hold that ends, with its end and the reason.
        held: The hold that is open afterwards.
    """

    ended: State | None
    held: State | None


def act_on(hold: State | None, act: Event) -> Change:
    """Apply a message to the hold of its address; a hold whose lease is over has ended before."""
    lapsed = lapse(hold, act["at"])
    if lapsed is not None:
        ended, hold = lapsed, None
    else:
        ended = None
    is_own = hold is not None and hold["mac"] == act["mac"]
    if act["kind"] in GIVES:
        if hold is not None and is_own:
            prolonged = {"leased_us": _leased(act), "renewals": hold["renewals"] + 1}
            return Change(ended, {**hold, **prolonged})
        if hold is not None:
            ended = _ended(hold, act["at"], "taken")
        return Change(ended, _opened(act))
    if hold is not None and is_own:
        return Change(_ended(hold, act["at"], f"{act['kind']}d"), None)
    return Change(ended, hold)


def lapse(hold: State | None, at: int) -> State | None:
    """Return the hold with its end, if its lease is over at a moment."""
    if hold is None or hold["leased_us"] > at:
        return None
    return _ended(hold, hold["leased_us"], "expired")


def _step(memory: Memory, rows: list[Event], watermark: int) -> Folded:
    """Fold the acts up to the watermark; keep the others until it reaches them."""
    hold: State | None = memory.head.get("hold")
    acts = memory.waiting("acts", time_order)
    acts.add(map(remembered, rows))
    changed: list[Answer] = []
    for act in acts.pop(watermark):
        before = hold
        ended, hold = act_on(hold, act)
        changed += [each for each in (ended, hold if hold != before else None) if each is not None]
    lapsed = lapse(hold, watermark)
    if lapsed is not None:
        changed.append(lapsed)
        hold = None
    ip = rows[0]["ip"] if rows else memory.head.get("ip")
    answers = latest_per_key(({"ip": ip, **each} for each in changed), ("held_us",))
    memory.head = {"ip": ip, "hold": hold} if hold or acts else {}
    moments = [acts.first, hold["leased_us"] if hold else None]
    return Folded(answers, min((each for each in moments if each is not None), default=None))


def _migrate(memory: Memory) -> None:
    """Move the acts from one list, as form 0 kept them, to a queue."""
    memory.waiting("acts", time_order).add(memory.head.pop("acts", ()))


def remembered(row: Event) -> dict[str, Any]:
    """Return the values of a message that a hold needs, as JSON values."""
    return {
        **arrival(row),
        "ip": row["ip"],
        "kind": row["kind"],
        "mac": row["mac"],
        "device_id": row["device_id"],
        "lease": row["lease_seconds"] or 0,
    }


def acts_of(messages: DataFrame) -> DataFrame:
    """Select the messages that change who holds an address."""
    is_act = F.col("kind").isin(*ACTS) & F.col("ip").isNotNull()
    return messages.where(is_act).withColumn("arrived", F.unix_micros("_arrived_at"))


def ip_holds(messages: DataFrame) -> DataFrame:
    """Fold the messages about each address into holds."""
    seen = [(messages, "event_at", dhcp_events.TABLE.lateness)]
    holds = folded(acts_of(messages), FOLD, time="event_at", seen=seen)
    held_from = F.timestamp_micros("held_us")
    return holds.select(
        "ip",
        held_from.alias("held_from"),
        F.timestamp_micros("until_us").alias("held_until"),
        F.timestamp_micros("leased_us").alias("leased_until"),
        "mac",
        "device_id",
        "ended_by",
        "renewals",
        F.date_trunc("hour", held_from).alias("window_from"),
    )


def _opened(act: Event) -> State:
    return {
        "held_us": act["at"],
        "until_us": None,
        "leased_us": _leased(act),
        "mac": act["mac"],
        "device_id": act["device_id"],
        "ended_by": None,
        "renewals": 0,
    }


def _leased(act: Event) -> int:
    return int(act["at"] + min(max(act["lease"], 0), LONGEST_LEASE) * SECOND)


def _ended(hold: State, at: int, why: str) -> State:
    return {**hold, "until_us": at, "ended_by": why}


FOLD = Fold(
    by=("ip",),
    reads=OF_ACTS,
    output=HOLD,
    key=("ip", "held_us"),
    step=_step,
    form=1,
    migrate=_migrate,
)

TABLE = Upserted(
    name="ip_holds",
    reads=(dhcp_events.TABLE,),
    transform=ip_holds,
    key=("ip", "held_from"),
    event_at="held_from",
    emits=Emit.ON_WATERMARK,
    window_from="window_from",
    valid_until="held_until",
)
