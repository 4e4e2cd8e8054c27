"""The messages of devices and the DHCP server about addresses, as received.

Grain: one row a Kafka record.
Reads: topic dhcp-events. Read by: silver.dhcp_events.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="dhcp_events",
    reads=(Topic(name="dhcp-events", partitions=2),),
)
