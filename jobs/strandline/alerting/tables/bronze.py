"""Alerts, as the rules raised them.

Grain: one row a Kafka record; an alert that was raised again after a crash has several.
Reads: topic alerts, which `strandline alerts` writes. Read by: silver.alerts.
Late data: bronze knows no time but the arrival.
"""

from strandline.core.table import Ingested
from strandline.core.topic import Topic

TABLE = Ingested(
    name="alerts",
    reads=(Topic(name="alerts", partitions=1),),
)
