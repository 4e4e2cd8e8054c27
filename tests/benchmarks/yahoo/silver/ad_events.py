"""Events of advertisements.

Grain: one row a record, which has no id of its own.
Reads: bronze.ad_events. Read by: gold.ad_views_10s.
Late data: up to a minute.
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType
from strandline import CARRIED, PLACE, Judged, Lateness, parse_json, required

from tests.benchmarks.yahoo.bronze import ad_events as bronze

TEXTS = (
    "user_id",
    "page_id",
    "ad_id",
    "ad_type",
    "event_type",
    "event_time",
    "ip_address",
)
FIELDS = StructType()
for _name in TEXTS:
    FIELDS.add(_name, StringType())


def ad_events(events: DataFrame) -> DataFrame:
    """Read each event; its time is a text of milliseconds."""
    found = parse_json(events, FIELDS)
    event_at = F.timestamp_millis(F.expr("try_cast(event_time AS BIGINT)"))
    return found.select(
        *CARRIED,
        *(name for name in TEXTS if name != "event_time"),
        event_at.alias("event_at"),
    )


TABLE = Judged(
    name="ad_events",
    reads=(bronze.TABLE,),
    transform=ad_events,
    key=PLACE,
    event_at="event_at",
    rules=required("ad_id", "event_type", "event_at"),
    lateness=Lateness(
        late=timedelta(seconds=60), early=timedelta(seconds=5), disorder=timedelta(seconds=10)
    ),
)
