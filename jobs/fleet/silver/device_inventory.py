"""Changes of the inventory: each device's site, model and owner.

Grain: one row a change, by its own id.
Reads: bronze.device_inventory. Read by: silver.devices.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from fleet.bronze import device_inventory as bronze

FIELDS = (
    StructType()
    .add("change_id", StringType())
    .add("device_id", StringType())
    .add("site", StringType())
    .add("model", StringType())
    .add("owner", StringType())
    .add("event_at", TimestampType())
)


def device_inventory(events: DataFrame) -> DataFrame:
    """Read each event's payload as a change."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="device_inventory",
    reads=(bronze.TABLE,),
    transform=device_inventory,
    key=("change_id",),
    event_at="event_at",
    owner="fleet",
    rules=required("change_id", "device_id", "event_at"),
)
