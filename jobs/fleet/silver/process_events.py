"""Programs that were started on endpoints, in the names of the Sigma taxonomy.

Grain: one row a start, by the process GUID.
Reads: bronze.process_events. Read by: threat hunting.
Late data: up to an hour; later ones, and those of clocks that run ahead, go to the quarantine.

Vendors of endpoint agents add fields with every release, so undeclared fields are kept beside the others.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, no_unknown_fields, required, rescued

from fleet.bronze import process_events as bronze

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
    .add("OriginalFileName", StringType())
    .add("CurrentDirectory", StringType())
    .add("IntegrityLevel", StringType())
    .add("Product", StringType())
    .add("Company", StringType())
    .add("Description", StringType())
    .add("FileVersion", StringType())
    .add("LogonId", StringType())
    .add("LogonGuid", StringType())
    .add("TerminalSessionId", LongType())
    .add("ParentProcessGuid", StringType())
    .add("ParentProcessId", LongType())
    .add("ParentUser", StringType())
)
"""All that Sysmon sends of a start (its event 1) and rules of Sigma ask for; a logon is a text there, ``0x3e7``."""


def process_events(events: DataFrame) -> DataFrame:
    """Read each event's payload as the start of a program."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames(), rescued(FIELDS))


TABLE = Judged(
    name="process_events",
    reads=(bronze.TABLE,),
    transform=process_events,
    key=("ProcessGuid",),
    event_at="UtcTime",
    owner="security",
    sensitive=("User", "CommandLine", "ParentCommandLine", "CurrentDirectory", "ParentUser"),
    rules=(*required("ProcessGuid", "Image", "Computer", "UtcTime"), no_unknown_fields()),
)
