"""Events of advertisements as received.

Grain: one row a Kafka record.
Reads: topic ad-events. Read by: silver.ad_events.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(name="ad_events", reads=(Topic(name="ad-events", partitions=4),))
