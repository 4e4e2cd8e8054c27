"""Changes of the device inventory, as received.

Grain: one row a Kafka record.
Reads: topic device-inventory. Read by: silver.device_inventory.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="device_inventory",
    reads=(Topic(name="device-inventory", partitions=2),),
)
