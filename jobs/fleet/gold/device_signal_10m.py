"""Each signal of each device in ten-minute windows.

Grain: one row a device, signal and window of ten minutes of event time.
Reads: silver.device_telemetry, silver.devices as of the beginning of each window. Read by: dashboards and ad-hoc
questions.
Late data: a window is final when no admitted reading can fall into it any more; its device's site, model and owner are
updated when a change for that time arrives later.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Dimension, Severity, Windowed, Within

from fleet.silver import device_telemetry, devices

WINDOW = "10 minutes"


def device_signal_10m(readings: DataFrame) -> DataFrame:
    """Summarise the readings of each device, signal and window."""
    window = F.window("event_at", WINDOW)
    # Values are decimals, so sum and average do not depend on the order of addition.
    summaries = readings.groupBy("device_id", "signal", window).agg(
        F.count("*").alias("readings"),
        F.min("value").alias("min_value"),
        F.max("value").alias("max_value"),
        F.avg("value").alias("avg_value"),
        F.collect_list("value").alias("all_values"),
    )
    return summaries.select(
        "device_id",
        "signal",
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "readings",
        "min_value",
        "max_value",
        "avg_value",
        # One of the values: a sketch would depend on their order, and Spark's exact percentile is a double.
        F.expr("array_sort(all_values)[(size(all_values) * 95 + 99) div 100 - 1]").alias(
            "p95_value"
        ),
    )


TABLE = Windowed(
    name="device_signal_10m",
    reads=(device_telemetry.TABLE,),
    transform=device_signal_10m,
    key=("device_id", "signal", "window_from"),
    window=WINDOW,
    window_from="window_from",
    closes_at="window_until",
    source_count="readings",
    expects=(
        Within(
            name="average_beyond_its_values",
            aggregate="count_if(avg_value NOT BETWEEN min_value AND max_value)",
            high=0,
            severity=Severity.CRITICAL,
            about="an average lies between the smallest value and the largest",
        ),
    ),
    owner="fleet",
    dimension=Dimension(source=devices.TABLE, columns=devices.STATIC, join=devices.as_of),
)
