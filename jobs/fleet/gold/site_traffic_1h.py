"""How much each site sends and receives, in windows of an hour that begin every ten minutes.

Grain: one row a site and window; a connection is in six windows.
Reads: gold.attributed_connections, silver.devices as of the connection. Read by: dashboards and capacity planning.
Late data: a window is recomputed whenever a connection in it is new or gets another holder, and when a late change
shows that a device was at another site.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Recomputed

from fleet.gold import attributed_connections
from fleet.gold.attributed_connections import UNKNOWN
from fleet.silver import devices

WINDOW, EVERY = "1 hour", "10 minutes"
EXACT = "decimal(19,0)"


def site_traffic_1h(connections: DataFrame, intervals: DataFrame) -> DataFrame:
    """Sum the connections of each site and window."""
    placed = devices.as_of(connections, intervals, "event_at", ("site",))
    window = F.window("event_at", WINDOW, EVERY)
    traffic = placed.groupBy(F.coalesce("site", F.lit(UNKNOWN)).alias("site"), window).agg(
        F.count("*").alias("connections"),
        # A sum of longs overflows and ends the stream when two devices falsely send the largest long.
        F.sum(F.col("bytes_out").cast(EXACT)).alias("bytes_out"),
        F.sum(F.col("bytes_in").cast(EXACT)).alias("bytes_in"),
    )
    return traffic.select(
        "site",
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "connections",
        "bytes_out",
        "bytes_in",
    )


TABLE = Recomputed(
    name="site_traffic_1h",
    reads=(attributed_connections.TABLE, devices.TABLE),
    transform=site_traffic_1h,
    key=("site", "window_from"),
    window=WINDOW,
    window_from="window_from",
    valid_until="window_until",
    unknown=UNKNOWN,
)
