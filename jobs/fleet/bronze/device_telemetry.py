"""Device telemetry as received, in today's shape and in that of devices that were not updated.

Grain: one row a Kafka record.
Reads: topics device-telemetry and device-telemetry-v1. Read by: silver.device_telemetry.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic, parse_csv

NEWER = Topic(name="device-telemetry", partitions=4)
OLDER = Topic(name="device-telemetry-v1", partitions=2, parse=parse_csv)

TABLE = Ingested(
    name="device_telemetry",
    reads=(NEWER, OLDER),
)
