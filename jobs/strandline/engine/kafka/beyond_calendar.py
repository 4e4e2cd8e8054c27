"""Records with a time beyond the calendar: a producer sent microseconds or nanoseconds where Kafka has milliseconds.

Microseconds are the year 57,742, which Spark can represent and Python cannot. Nanoseconds are more than Spark can
represent at all, and one such record makes its Kafka reader fail; then the C client reads a few records at a time.
In bronze both arrive at the last millisecond of the year 9999: silver quarantines them, and no watermark moves.
"""

from collections.abc import Iterable

from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from strandline.core.received import HEADERS

LAST = 253_402_300_799_999
"""The last millisecond of the year 9999."""

FEW = 1_000
"""How many records of such a slice are held in Python; each may have a megabyte."""

REFUSAL = ("KafkaIllegalStateException", "overflows")
"""Words in the error of Spark's reader."""

RECORD = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("millisecond", LongType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", HEADERS)
)


def is_beyond(error: Exception) -> bool:
    """Return whether Spark failed because of a record's time."""
    text = str(error)
    return all(word in text for word in REFUSAL)


def within_calendar(moment: Column) -> Column:
    """Return a time, or the calendar's last one where the time is beyond it."""
    return F.least(moment, F.timestamp_millis(F.lit(LAST)))


def as_spark_reads(spark: SparkSession, messages: Iterable[Message]) -> DataFrame:
    """Return records of the C client with the columns of Spark's reader."""
    rows = [
        (
            message.topic(),
            message.partition(),
            message.offset(),
            min(message.timestamp()[1], LAST),
            message.key(),
            message.value(),
            message.headers(),
        )
        for message in messages
    ]
    found = spark.createDataFrame(rows, RECORD)
    return found.withColumn("timestamp", F.timestamp_millis("millisecond")).drop("millisecond")
