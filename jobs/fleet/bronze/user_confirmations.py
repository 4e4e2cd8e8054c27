"""Second factors, as received.

Grain: one row a Kafka record.
Reads: topic user-confirmations. Read by: silver.user_confirmations.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="user_confirmations",
    reads=(Topic(name="user-confirmations", partitions=2),),
)
