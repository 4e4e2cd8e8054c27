"""What the rules have raised: each alert once, with its event and the place of its record.

Grain: one row an alert.
Reads: silver.alerts. Read by: people on call, and reports.
Late data: as silver.alerts; an alert is final at once.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.alerting.tables import silver
from strandline.core.table import Appended


def alerts(found: DataFrame) -> DataFrame:
    """Select what an alert says, with the time at which it came to the topic."""
    return found.select(*silver.FIELDS.fieldNames(), F.col("_arrived_at").alias("raised_at"))


TABLE = Appended(
    name="alerts",
    reads=(silver.TABLE,),
    transform=alerts,
    key=("alert_id",),
    event_at="event_at",
    owner="security",
)
