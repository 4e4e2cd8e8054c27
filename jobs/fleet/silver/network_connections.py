"""Connections, from which address to which.

Grain: one row a connection, by the id that the sensor gave it.
Reads: bronze.network_connections. Read by: gold.attributed_connections.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, OnFail, between, required

from fleet.bronze import network_connections as bronze

FIELDS = (
    StructType()
    .add("connection_id", StringType())
    .add("src_ip", StringType())
    .add("dst_ip", StringType())
    .add("dst_port", LongType())
    .add("bytes_out", LongType())
    .add("bytes_in", LongType())
    .add("event_at", TimestampType())
)


def network_connections(events: DataFrame) -> DataFrame:
    """Read each event's payload as a connection."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="network_connections",
    reads=(bronze.TABLE,),
    transform=network_connections,
    key=("connection_id",),
    event_at="event_at",
    owner="network",
    rules=(
        *required("connection_id", "src_ip", "dst_ip", "event_at"),
        between("dst_port", 0, 65535, null_ok=True, on_fail=OnFail.WARN),
    ),
)
