"""How unusual each connection is, by the version of the model that held when it was made.

Grain: one row a connection, by its own id.
Reads: silver.network_connections. Read by: security, which looks at the unusual ones, and the model's training.
Late data: as silver.network_connections; a row is final at once, and keeps the score of its own time.
"""

from pyspark.sql import DataFrame
from strandline import Appended

from fleet.silver import network_connections
from fleet.silver.network_connections import FIELDS


def traffic_scores(connections: DataFrame) -> DataFrame:
    """Select what a connection says; the model's columns are added to it."""
    return connections.select(*FIELDS.fieldNames())


TABLE = Appended(
    name="traffic_scores",
    reads=(network_connections.TABLE,),
    transform=traffic_scores,
    key=("connection_id", "event_at"),
    event_at="event_at",
    owner="security",
    scored_by="unusual_traffic",
)
