"""What the devices measured.

Grain: one row a reading, by the event id that the device gave it.
Reads: bronze.device_telemetry. Read by: gold.device_signal_10m.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

from jobs.bronze import device_telemetry as bronze
from jobs.core.parse import parse_json
from jobs.core.received import CARRIED
from jobs.core.table import Layer, Table
from quality.rules import required

FIELDS = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("value", DecimalType(14, 4))
    .add("event_at", TimestampType())
    .add("meta", StructType().add("firmware", StringType()).add("seq", LongType()))
)


def device_telemetry(events: DataFrame) -> DataFrame:
    """Read each event's payload as a reading."""
    readings = parse_json(events, FIELDS)
    return readings.select(
        *CARRIED,
        "event_id",
        "device_id",
        "signal",
        "value",
        "event_at",
        F.col("meta.firmware").alias("firmware"),
        F.col("meta.seq").alias("seq"),
    )


TABLE = Table(
    layer=Layer.SILVER,
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=device_telemetry,
    key=("event_id",),
    event_at="event_at",
    rules=required("event_id", "device_id", "signal", "value", "event_at"),
)
