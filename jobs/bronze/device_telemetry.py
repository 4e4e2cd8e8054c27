"""Device telemetry as received.

Grain: one row a Kafka record.
Reads: topic device-telemetry. Read by: silver.device_telemetry.
Late data: bronze knows no time but the arrival.
"""

from jobs.core.table import Layer, Table, Topic

TABLE = Table(
    layer=Layer.BRONZE,
    name="device_telemetry",
    reads=(Topic(name="device-telemetry", partitions=4),),
)
