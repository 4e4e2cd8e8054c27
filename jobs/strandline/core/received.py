"""The columns of every bronze table, and those that silver carries along.

Bronze is as received: the bytes, the key, the headers and their place in Kafka.
``(_topic, _partition, _offset)`` is the identity of an event and travels with it to the end.
Every name begins with an underscore, so that none collides with a column of a user's table.
``_batch`` numbers the commits, because every replay decides duplicates in commit order, then by arrival; a commit may
be cut anywhere along that order without changing which copy is the first.
``_ingested_at`` is the clock of the reader: a record with a later timestamp was stamped by a broken clock and must not
move the watermark.
``_newest_before`` is the newest arrival in all commits before the row's own, without those of a broken clock
(``SKEW`` in jobs/strandline/core/lateness.py); ``NOTHING_ARRIVED`` in the first commit, NULL in one of an older version. It is
written into the row so that every mode, every other split of the log into batches and every replay measures disorder
against the same moment (jobs/strandline/core/lateness.py).
"""

from datetime import UTC, datetime

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

NOTHING_ARRIVED = datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)
"""The newest arrival before the first; a millisecond after the watermark of a stream that has read nothing."""

ORDER = ("_batch", "_arrived_at", "_topic", "_partition", "_offset")
"""The order of bronze; of several copies the first in this order counts."""

CARRIED = (*RECEIVED.fieldNames(), "_problem")
"""The columns that a silver function passes on beside its own; ``_problem`` is the reason why a payload is no row."""

PLACE = ("_topic", "_partition", "_offset")
"""The identity of an event."""

IDENTITY = (*PLACE, "_arrived_at")
"""The place of an event in Kafka and its arrival; every silver row and every quarantined one carries them."""

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
"""A decision about a record of the quarantine: the record, its new status, the reason, and who decided."""
