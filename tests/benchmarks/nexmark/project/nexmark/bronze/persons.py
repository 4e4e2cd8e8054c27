"""Persons who join the auction house, as received.

Grain: one row a Kafka record.
Reads: topic nexmark-persons. Read by: silver.persons.
Late data: bronze knows no time but the arrival.
"""

from strandline import Ingested, Topic

TABLE = Ingested(name="persons", reads=(Topic(name="nexmark-persons", partitions=2),))
