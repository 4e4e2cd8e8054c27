"""Auctions that are opened, as received.

Grain: one row a Kafka record.
Reads: topic nexmark-auctions. Read by: silver.auctions.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(name="auctions", reads=(Topic(name="nexmark-auctions", partitions=2),))
