"""Second factors: a user's confirmation that an action was their own.

Grain: one row a confirmation, by its own id.
Reads: bronze.user_confirmations. Read by: gold.confirmed_logins.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from fleet.bronze import user_confirmations as bronze

FIELDS = (
    StructType()
    .add("confirmation_id", StringType())
    .add("action_id", StringType())
    .add("user_id", StringType())
    .add("method", StringType())
    .add("event_at", TimestampType())
)


def user_confirmations(events: DataFrame) -> DataFrame:
    """Read each event's payload as a confirmation."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="user_confirmations",
    reads=(bronze.TABLE,),
    transform=user_confirmations,
    key=("confirmation_id",),
    event_at="event_at",
    owner="identity",
    sensitive=("user_id",),
    rules=required("confirmation_id", "action_id", "user_id", "event_at"),
)
