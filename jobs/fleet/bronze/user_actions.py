"""Actions of users, as received.

Grain: one row a Kafka record.
Reads: topic user-actions. Read by: silver.user_actions.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="user_actions",
    reads=(Topic(name="user-actions", partitions=2),),
)
