"""Each signal of each device by business day, which begins at midnight where the device is.

Grain: one row a device, signal, site and business day.
Reads: gold.device_signal_10m, silver.devices as of each window. Read by: monthly reports.
Late data: a day is recomputed whenever one of its windows closes, and when a late change shows that its device was at
another site.
"""

from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Recomputed

from fleet.gold import device_signal_10m
from fleet.silver import devices

ZONES = {
    "berlin": "Europe/Berlin",
    "boston": "America/New_York",
    "nairobi": "Africa/Nairobi",
    "osaka": "Asia/Tokyo",
    "lima": "America/Lima",
}
"""The time zone of each site; a site that is not listed has UTC."""


def device_daily(windows: DataFrame, intervals: DataFrame) -> DataFrame:
    """Summarise the windows of each business day."""
    zones = F.create_map(*map(F.lit, chain.from_iterable(ZONES.items())))
    counted = windows.drop(
        *devices.STATIC
    )  # the dimension's columns; the site is joined again below
    placed = devices.as_of(counted, intervals, "window_from", ("site",))
    zone = F.coalesce(zones[F.col("site")], F.lit("UTC"))
    midnight = F.date_trunc("day", F.from_utc_timestamp("window_from", zone))
    days = placed.withColumns({"day": midnight.cast("date"), "zone": zone})
    return (
        days.groupBy("device_id", "signal", "site", "zone", "day")
        .agg(
            F.sum("readings").alias("readings"),
            F.min("min_value").alias("min_value"),
            F.max("max_value").alias("max_value"),
            F.count("*").alias("windows"),
        )
        .withColumn("day_from", F.to_utc_timestamp(F.col("day").cast("timestamp"), F.col("zone")))
    )


TABLE = Recomputed(
    name="device_daily",
    reads=(device_signal_10m.TABLE, devices.TABLE),
    transform=device_daily,
    key=("device_id", "signal", "site", "day"),
    key_null_ok=("site",),  # the device's site is not known yet
    window="25 hours",
    window_from="day_from",
)
