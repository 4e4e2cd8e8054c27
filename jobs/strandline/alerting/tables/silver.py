"""Each alert once, however often it was raised.

Grain: one row an alert, by its id: a hash of the rule, its version, and the event (jobs/strandline/alerting/one_plan.py) or the key and
timespan of several (jobs/strandline/alerting/windows.py).
Reads: bronze.alerts. Read by: gold.alerts.
Late data: up to eight days after the event. An event is an hour late at most, or it is not believed and raises nothing;
and it is raised from its topic, which usually keeps it for a week, also when nothing raised alerts for days. An alert on an
older event is one from history: a topic that keeps longer was read from its first record, or history was sent again. It is
believed as well, counts once with one that was raised in time, and is recorded; nothing delivers it.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from strandline.alerting.tables import bronze
from strandline.core.kind import RECENT, Lateness
from strandline.core.table import Judged
from strandline.core.topic import CARRIED
from strandline_quality.rules import required

FIELDS = (
    StructType()
    .add("alert_id", StringType())
    .add("rule_id", StringType())
    .add("rule_version", StringType())
    .add("rule_severity", StringType())
    .add("event_table", StringType())
    .add("event_key", StringType())
    .add("event_at", TimestampType())
    .add("event", StringType())
    .add("event_topic", StringType())
    .add("event_partition", IntegerType())
    .add("event_offset", LongType())
)
"""``event_key`` and ``event`` are JSON: the columns of the table's key, and all declared ones, the sensitive masked.

Of a threshold rule these are its keys, and what it counted with the places of the last events that decided.
"""


def alerts(records: DataFrame) -> DataFrame:
    """Read each record's payload as an alert."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(records, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="alerts",
    reads=(bronze.TABLE,),
    transform=alerts,
    key=("alert_id",),
    event_at="event_at",
    owner="security",
    lateness=Lateness(late=RECENT),
    believes_history=True,
    rules=required("alert_id", "rule_id", "rule_version", "event_table", "event_at"),
)
