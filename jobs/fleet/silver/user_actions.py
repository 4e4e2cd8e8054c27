"""Actions of users: log-ins and others that need a confirmation.

Grain: one row an action, by the action id that the application gave it.
Reads: bronze.user_actions. Read by: gold.confirmed_logins.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from fleet.bronze import user_actions as bronze

FIELDS = (
    StructType()
    .add("action_id", StringType())
    .add("user_id", StringType())
    .add("action", StringType())
    .add("device_id", StringType())
    .add("event_at", TimestampType())
)


def user_actions(events: DataFrame) -> DataFrame:
    """Read each event's payload as an action."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="user_actions",
    reads=(bronze.TABLE,),
    transform=user_actions,
    key=("action_id",),
    event_at="event_at",
    owner="identity",
    sensitive=("user_id",),
    rules=required("action_id", "user_id", "action", "event_at"),
)
