"""Each connection with the device that held its address at that moment.

Grain: one row a connection, by its own id.
Reads: silver.network_connections, silver.dhcp_events. Read by: gold.site_traffic_1h and security.
Late data: a connection is emitted at once with the holder that is known, ``unknown`` if there is none, and again when
a message about its address arrives later and shows another holder.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType
from strandline import (
    Answer,
    Event,
    Fold,
    Folded,
    Kept,
    Memory,
    Upserted,
    Waiting,
    folded,
    time_order,
)

from fleet.gold.ip_holds import OF_ACTS, act_on, acts_of, lapse, remembered
from fleet.silver import dhcp_events, network_connections

UNKNOWN = "unknown"
WINDOW = "10 minutes"
OWN = ("connection_id", "dst_ip", "dst_port", "bytes_out", "bytes_in")
"""The columns of a connection, beside its address and its time."""

ATTRIBUTED = (
    StructType()
    .add("connection_id", StringType())
    .add("ip", StringType())
    .add("dst_ip", StringType())
    .add("dst_port", LongType())
    .add("bytes_out", LongType())
    .add("bytes_in", LongType())
    .add("at_us", LongType())
    .add("device_id", StringType())
)


def _step(memory: Memory, rows: list[Event], watermark: int) -> Folded:
    """Attribute new connections, correct those after the watermark, forget those before it.

    Each act is kept with the hold that it left, so that a connection needs the last act before it and no other.
    """
    acts = memory.waiting("acts", time_order)
    waiting = memory.waiting("connections", _by_moment)
    answers: list[Answer] = []

    def attribute(connection: Kept) -> bool:
        act = acts.before(connection["at_us"] + 1)
        hold = act["hold"] if act else memory.head.get("hold")
        holder = UNKNOWN
        if hold is not None and lapse(hold, connection["at_us"]) is None:
            holder = hold["device_id"] or UNKNOWN
        if holder == connection["device_id"]:
            return False
        connection["device_id"] = holder
        answers.append(dict(connection))
        return True

    new = [remembered(row) for row in rows if row["connection_id"] is None]
    if new:
        since = min(act["at"] for act in new)
        acts.add(new)
        _act_from(memory, acts, since)
        waiting.revise(since, attribute)
    made = [_connection(row) for row in rows if row["connection_id"] is not None]
    for connection in made:
        attribute(connection)
    waiting.add(made)
    _forget(memory, watermark)
    hold = memory.head.get("hold")
    moments = [acts.last, waiting.last, hold["leased_us"] if hold else None]
    # The timer emits nothing, it only forgets state; one timer, for when all of it can be forgotten, is enough.
    return Folded(answers, max((each for each in moments if each is not None), default=None))


def _act_from(memory: Memory, acts: Waiting, since: int) -> None:
    """Apply the acts from a moment on again, because new ones are among them."""
    before = acts.before(since)
    hold = before["hold"] if before else memory.head.get("hold")

    def act(each: Kept) -> bool:
        nonlocal hold
        hold = act_on(hold, each).held
        each["hold"] = hold
        return True

    acts.revise(since, act)


def _forget(memory: Memory, watermark: int) -> None:
    """Drop acts and connections up to the watermark; keep the hold that is open."""
    past = memory.waiting("acts", time_order).pop(watermark)
    hold = past[-1]["hold"] if past else memory.head.get("hold")
    memory.head = {"hold": hold} if hold and lapse(hold, watermark) is None else {}
    memory.waiting("connections", _by_moment).drop(watermark)


def _migrate(memory: Memory) -> None:
    """Move acts and connections from lists, as form 0 kept them, to queues; add to each act the hold that it left."""
    acts = memory.waiting("acts", time_order)
    acts.add(memory.head.pop("acts", ()))
    memory.waiting("connections", _by_moment).add(memory.head.pop("connections", ()))
    if acts.first is not None:
        _act_from(memory, acts, acts.first)


def _by_moment(connection: Kept) -> list[Any]:
    return [connection["at_us"], connection["connection_id"]]


def _connection(row: Event) -> dict[str, Any]:
    own = {name: row[name] for name in OWN}
    return {**own, "ip": row["ip"], "at_us": row["at"], "device_id": None}


def attributed_connections(connections: DataFrame, messages: DataFrame) -> DataFrame:
    """Find the holder of each connection's address among the messages about it."""
    made = connections.where(F.col("src_ip").isNotNull()).select(
        F.col("src_ip").alias("ip"), "event_at", *OWN
    )
    acts = acts_of(messages).select("ip", "event_at", *OF_ACTS)
    both = made.unionByName(acts, allowMissingColumns=True)
    attributed = folded(both, FOLD, time="event_at")
    event_at = F.timestamp_micros("at_us")
    return attributed.select(
        "connection_id",
        F.col("ip").alias("src_ip"),
        "dst_ip",
        "dst_port",
        "bytes_out",
        "bytes_in",
        event_at.alias("event_at"),
        "device_id",
        F.window(event_at, WINDOW)["start"].alias("window_from"),
    )


FOLD = Fold(
    by=("ip",),
    reads=(*OWN, *OF_ACTS),
    output=ATTRIBUTED,
    key=("connection_id", "at_us"),
    step=_step,
    form=1,
    migrate=_migrate,
)

TABLE = Upserted(
    name="attributed_connections",
    reads=(network_connections.TABLE, dhcp_events.TABLE),
    transform=attributed_connections,
    key=("connection_id", "event_at"),
    event_at="event_at",
    window_from="window_from",
    unknown=UNKNOWN,
)
