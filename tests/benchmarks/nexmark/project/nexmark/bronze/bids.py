"""Bids on auctions, as received.

Grain: one row a Kafka record.
Reads: topic nexmark-bids. Read by: silver.bids.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(name="bids", reads=(Topic(name="nexmark-bids", partitions=2),))
