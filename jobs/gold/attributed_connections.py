"""Each connection with the device that held its address at that moment.

Grain: one row a connection, by its own id.
Reads: silver.network_connections, silver.dhcp_events. Read by: gold.site_traffic_1h and security.
Late data: a connection is said at once with what is known, ``unknown`` if nobody is, and once more when a
message about its address arrives later and shows another holder.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from jobs.core.fold import Answer, Event, Fold, Folded, State, in_order
from jobs.core.stateful import folded
from jobs.core.table import Layer, Speaks, Table
from jobs.gold.ip_holds import OF_ACTS, act_on, acts_of, lapse, remembered
from jobs.silver import dhcp_events, network_connections

UNKNOWN = "unknown"
WINDOW = "10 minutes"
OWN = ("connection_id", "dst_ip", "dst_port", "bytes_out", "bytes_in")
"""What a connection says of itself, beside its address and its moment."""

SAID = (
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


def _step(state: State | None, rows: list[Event], settled: int) -> Folded:
    """Attribute what is new, correct what is not settled, forget what is."""
    base: State | None = state["hold"] if state else None
    known = state["acts"] if state else []
    acts = in_order([*known, *(remembered(row) for row in rows if row["connection_id"] is None)])
    waiting = [*(state["connections"] if state else ())]
    waiting += [_connection(row) for row in rows if row["connection_id"] is not None]
    answers: list[Answer] = []
    hold, passed = base, 0
    for connection in sorted(waiting, key=lambda each: (each["at_us"], each["connection_id"])):
        while passed < len(acts) and acts[passed]["at"] <= connection["at_us"]:
            hold = act_on(hold, acts[passed]).held
            passed += 1
        holder = UNKNOWN
        if hold is not None and lapse(hold, connection["at_us"]) is None:
            holder = hold["device_id"] or UNKNOWN
        if holder != connection["device_id"]:
            connection["device_id"] = holder
            answers.append(dict(connection))
    for act in acts:
        if act["at"] <= settled:
            base = act_on(base, act).held
    if lapse(base, settled) is not None:
        base = None
    acts = [act for act in acts if act["at"] > settled]
    waiting = [each for each in waiting if each["at_us"] > settled]
    moments = [act["at"] for act in acts] + [each["at_us"] for each in waiting]
    if base is not None:
        moments.append(base["leased_us"])
    if not moments:
        return Folded(None, answers, None)
    # Nothing is said when the time comes, it is only forgotten; once, when all of it can be, is enough.
    return Folded({"hold": base, "acts": acts, "connections": waiting}, answers, max(moments))


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
    found = folded(both, FOLD, time="event_at")
    event_at = F.timestamp_micros("at_us")
    return found.select(
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


FOLD = Fold(by=("ip",), reads=(*OWN, *OF_ACTS), says=SAID, step=_step)

TABLE = Table(
    layer=Layer.GOLD,
    name="attributed_connections",
    reads=(network_connections.TABLE, dhcp_events.TABLE),
    transform=attributed_connections,
    key=("connection_id", "event_at"),
    event_at="event_at",
    speaks=Speaks.ON_CHANGE,
    window_from="window_from",
    unknown=UNKNOWN,
)
