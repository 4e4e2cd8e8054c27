"""Connections through the network, as received.

Grain: one row a Kafka record.
Reads: topic network-connections. Read by: silver.network_connections.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="network_connections",
    reads=(Topic(name="network-connections", partitions=2),),
)
