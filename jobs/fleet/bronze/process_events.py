"""Programs that were started, as received.

Grain: one row a Kafka record.
Reads: topic process-events. Read by: silver.process_events.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="process_events",
    reads=(Topic(name="process-events", partitions=2),),
)
