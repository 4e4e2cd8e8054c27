"""Programs that were started on endpoints, in the names of the Sigma taxonomy.

Grain: one row a start, by the process GUID.
Reads: bronze.process_events. Read by: whoever hunts for what should not run.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from jobs.bronze import process_events as bronze
from jobs.core.received import CARRIED
from jobs.core.table import Layer, Table
from quality.rules import required

FIELDS = (
    StructType()
    .add("ProcessGuid", StringType())
    .add("UtcTime", TimestampType())
    .add("Computer", StringType())
    .add("User", StringType())
    .add("Image", StringType())
    .add("CommandLine", StringType())
    .add("ParentImage", StringType())
    .add("ParentCommandLine", StringType())
    .add("ProcessId", LongType())
    .add("Hashes", StringType())
)


def process_events(events: DataFrame) -> DataFrame:
    """Read each event's payload as the start of a program."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Table(
    layer=Layer.SILVER,
    name="process_events",
    reads=(bronze.TABLE,),
    transform=process_events,
    key=("ProcessGuid",),
    event_at="UtcTime",
    rules=required("ProcessGuid", "Image", "Computer", "UtcTime"),
    sensitive=("User", "CommandLine", "ParentCommandLine"),
)
