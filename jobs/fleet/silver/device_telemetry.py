"""Readings of the devices.

Grain: one row a reading, by the event id that the device gave it.
Reads: bronze.device_telemetry. Read by: gold.device_signal_10m.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.

Older devices use other names and other units. Their readings are translated here, in decimals, so that the same line
always gives the same value.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, Rule, required, united

from fleet.bronze import device_telemetry as bronze

FIELDS = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("value", DecimalType(14, 4))
    .add("event_at", TimestampType())
    .add("meta", StructType().add("firmware", StringType()).add("seq", LongType()))
)
OLDER_FIELDS = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("metric", StringType())
    .add("reading", DecimalType(14, 4))
    .add("at_ms", LongType())
    .add("firmware", StringType())
    .add("seq", LongType())
)
YEARS_IN_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""From the year 1 to the end of 9999, in milliseconds since 1970."""

SIGNALS = {
    "temp": "temperature",
    "hum": "humidity",
    "batt": "battery",
    "press": "pressure",
    "vibr": "vibration",
}
"""The signals of older devices by the names that they send; an unlisted name is kept."""

PLAUSIBLE = """CASE signal
    WHEN 'temperature' THEN value BETWEEN -90 AND 150
    WHEN 'humidity' THEN value BETWEEN 0 AND 100
    WHEN 'battery' THEN value BETWEEN 0 AND 100
    WHEN 'pressure' THEN value BETWEEN 300 AND 1200
    WHEN 'vibration' THEN value BETWEEN 0 AND 1000
    ELSE true END"""
"""The bounds of the sensors' data sheets; a signal that is not listed has none."""


def device_telemetry(events: DataFrame) -> DataFrame:
    """Read each event's payload as a reading, of either shape."""
    return united(events, {bronze.NEWER: newer, bronze.OLDER: older})


def newer(events: DataFrame) -> DataFrame:
    """Read today's shape."""
    readings = bronze.NEWER.parse(events, FIELDS)
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


def older(events: DataFrame) -> DataFrame:
    """Read the shape of devices that were not updated."""
    lines = _fitting(bronze.OLDER.parse(events, OLDER_FIELDS))
    names = F.create_map(*(F.lit(name) for pair in SIGNALS.items() for name in pair))
    return lines.select(
        *CARRIED,
        "event_id",
        "device_id",
        F.coalesce(names[F.col("metric")], "metric").alias("signal"),
        "value",
        "event_at",
        "firmware",
        "seq",
    )


def _fitting(lines: DataFrame) -> DataFrame:
    """Translate value and time; a value that no longer fits is ``wrong_type``, and must not end the stream."""
    is_moment = F.col("at_ms").between(*YEARS_IN_MS)
    translated = lines.withColumns(
        {
            "value": _translated(),
            "event_at": F.when(is_moment, F.timestamp_millis("at_ms")),
        }
    )
    is_lost = (F.col("reading").isNotNull() & F.col("value").isNull()) | (
        F.col("at_ms").isNotNull() & F.col("event_at").isNull()
    )
    return translated.withColumn(
        "_problem", F.coalesce("_problem", F.when(is_lost, F.lit("wrong_type")))
    )


def _translated() -> Column:
    celsius = F.expr("TRY_CAST((reading - 32) * 5 / 9 AS DECIMAL(14, 4))")
    hectopascal = F.expr("TRY_CAST(reading * 10 AS DECIMAL(14, 4))")
    return (
        F.when(F.col("metric") == "temp", celsius)
        .when(F.col("metric") == "press", hectopascal)
        .otherwise(F.col("reading"))
    )


TABLE = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=device_telemetry,
    key=("event_id",),
    event_at="event_at",
    owner="fleet",
    rules=(
        *required("event_id", "device_id", "signal", "value", "event_at"),
        Rule(
            name="implausible:value",
            holds=PLAUSIBLE,
            null_ok=True,  # its absence has a reason of its own
            max_failed=0.2,
            about="a fifth of the fleet beyond its data sheets is no fleet of broken sensors but a broken change",
            ok={"signal": "pressure", "value": "1013.25"},
            bad={"signal": "temperature", "value": "1013.25"},
        ),
    ),
)
