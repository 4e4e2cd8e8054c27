"""The drafts of a new table: each runs as it is, and passes its own test and the linter.

They are templates of the standard library: a draft has names to fill in, no loops or conditions, and Python's braces.
"""

TOPIC = '''"""FILL IN: what the records of this topic are, as received.

Grain: one row a Kafka record.
Reads: topic $topic. Read by: silver.$name.
Late data: bronze has no time but the arrival.
"""

from jobs.core.table import Ingested
from jobs.core.topic import Topic

TABLE = Ingested(
    name="$name",
    reads=(Topic(name="$topic"),),
)
'''

TOPIC_TEST = '''"""bronze.$name is as received."""

from jobs.bronze.$name import TABLE


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Bronze is as received; everything else can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["$topic"]
'''

SILVER = '''"""FILL IN: what a row is.

Grain: FILL IN: one row an event, by its own id.
Reads: bronze.$source. Read by: FILL IN.
Late data: up to an hour; later rows, and rows of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType, TimestampType

from jobs.bronze import $source as bronze
from jobs.core.received import CARRIED
from jobs.core.table import Judged
from quality.rules import required

# FILL IN: the share of a batch that may break a rule; beyond it nothing of the batch is published.
MAX_FAILED = 0.2

# FILL IN: the fields of a payload; what is not declared is not read.
FIELDS = StructType().add("event_id", StringType()).add("event_at", TimestampType())


def $name(events: DataFrame) -> DataFrame:
    """Read each event's payload."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="$name",
    reads=(bronze.TABLE,),
    transform=$name,
    key=("event_id",),
    event_at="event_at",
    rules=required("event_id", "event_at", max_failed=MAX_FAILED),
)
'''

SILVER_TEST = '''"""silver.$name takes rows that are complete, of the declared types, in time, and new."""

from pyspark.sql import SparkSession

from jobs.silver.$name import TABLE
from tests.support.read import read

CLEAN = b'{"event_id": "x1", "event_at": "2026-11-20T08:15:30Z"}'


def test_a_clean_payload_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a swapped name is seen."""
    (row,) = read(spark, TABLE, CLEAN)

    assert row == {"_problem": "-", "event_id": "x1", "event_at": "08:15:30"}
'''

GOLD = '''"""FILL IN: what question this answers.

Grain: FILL IN: one row a $key and window of ten minutes of event time.
Reads: $layer.$source. Read by: FILL IN.
Late data: FILL IN: when a window is emitted, and what happens to it afterwards.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.table import $kind
from jobs.$layer import $source

WINDOW = "10 minutes"


def $name(rows: DataFrame) -> DataFrame:
    """FILL IN: count the rows of each $key and window."""
    windows = rows.groupBy("$key", F.window("$event_at", WINDOW))
    return windows.agg(F.count("*").alias("events")).select(
        "$key",
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "events",
    )


TABLE = $kind(
    name="$name",
    reads=($source.TABLE,),
    transform=$name,
    key=("$key", "window_from"),
    window=WINDOW,
    window_from="window_from",
    closes_at="window_until",
)
'''

GOLD_TEST = '''"""gold.$name."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.gold.$name import $name


def test_rows_of_one_window_are_counted_together(spark: SparkSession) -> None:
    """The end of a window belongs to the next one."""
    moments = [datetime(2026, 1, 1, 8, minute, tzinfo=UTC) for minute in (0, 9, 10)]
    rows = spark.createDataFrame(
        [("a", moment) for moment in moments], "$key string, $event_at timestamp"
    )

    found = $name(rows).orderBy("window_from").collect()

    assert [row["events"] for row in found] == [2, 1]
'''
