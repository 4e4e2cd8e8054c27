"""Second factors, as received.

Grain: one row a Kafka record.
Reads: topic user-confirmations. Read by: silver.user_confirmations.
Late data: bronze knows no time but the arrival.
"""

from jobs.core.table import Layer, Table, Topic

TABLE = Table(
    layer=Layer.BRONZE,
    name="user_confirmations",
    reads=(Topic(name="user-confirmations", partitions=2),),
)
