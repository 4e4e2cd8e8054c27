"""The messages of devices and the DHCP server about addresses.

Grain: one row a message, by its own id.
Reads: bronze.dhcp_events. Read by: gold.ip_holds, gold.attributed_connections.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from fleet.bronze import dhcp_events as bronze

FIELDS = (
    StructType()
    .add("dhcp_id", StringType())
    .add("kind", StringType())
    .add("mac", StringType())
    .add("device_id", StringType())
    .add("ip", StringType())
    .add("lease_seconds", LongType())
    .add("event_at", TimestampType())
)


def dhcp_events(events: DataFrame) -> DataFrame:
    """Read each event's payload as a message."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="dhcp_events",
    reads=(bronze.TABLE,),
    transform=dhcp_events,
    key=("dhcp_id",),
    event_at="event_at",
    owner="network",
    rules=required("dhcp_id", "kind", "mac", "event_at"),
)
