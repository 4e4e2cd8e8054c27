"""The columns of every bronze table, and what of them silver carries along.

Bronze is as received: the bytes, the key, the headers and where they stood in Kafka.
``(_topic, _partition, _offset)`` is the identity of an event and travels with it to the end.
Every name begins with an underscore, so that none can meet a column of a user's table.
``_batch`` numbers the commits, because commit order, then arrival is the order in which every replay settles
duplicates; a commit may be cut anywhere along it without changing which copy is the first. ``_ingested_at`` is the clock of the reader: a record whose timestamp lies
beyond it was stamped by a broken clock and must not move the watermark.
``_newest_before`` is the newest arrival in all commits before the row's own, no later than the clock of their reader;
NULL in the first commit. It is written into the row so that every mode, every recut and every replay measures
disorder against the same moment (jobs/core/lateness.py).
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

RECEIVED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
    .add("_batch", LongType())
    .add("_ingested_at", TimestampType())
    .add("_newest_before", TimestampType())
)

ORDER = ("_batch", "_arrived_at", "_topic", "_partition", "_offset")
"""The order of bronze, in which the first of several copies is the one that counts."""

CARRIED = (*RECEIVED.fieldNames(), "_problem")
"""What a silver function hands on beside its own columns; ``_problem`` says why a payload is no row."""

PLACE = ("_topic", "_partition", "_offset")
"""What tells one event from every other."""

IDENTITY = (*PLACE, "_arrived_at")
"""Where an event stood in Kafka; every silver row and every quarantined one says it."""

QUARANTINE = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
)
"""A row of the quarantine: every reason, the original bytes, and the identity."""

RESOLUTION = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("generation", LongType())
    .add("was", StringType())
    .add("status", StringType())
    .add("why", StringType())
    .add("who", StringType())
    .add("resolved_at", TimestampType())
    .add("entry", StringType())
)
"""What was done about a record of the quarantine: which record it was, what became of it, and by whom."""
