"""The columns of tables that several tests write by hand."""

from pyspark.sql.types import (
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

SIGNALS = (
    StructType()
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("window_from", TimestampType())
    .add("window_until", TimestampType())
    .add("readings", LongType())
    .add("min_value", DecimalType(18, 2))
    .add("max_value", DecimalType(18, 2))
)
"""gold.device_signal_10m, as far as a business day needs it."""

INTERVALS = (
    StructType()
    .add("device_id", StringType())
    .add("valid_from", TimestampType())
    .add("valid_until", TimestampType())
    .add("site", StringType())
)
"""silver.devices, without what a test of sites does not need."""

ORDER = (
    StructType()
    .add("id", StringType())
    .add("count", LongType())
    .add("cost", DecimalType(9, 2))
    .add("at", TimestampType())
)
"""An order, for tests of payloads in another format than JSON."""


def arrived(fields: StructType) -> StructType:
    """Add to the fields of a silver table when and where its rows arrived."""
    known = StructType(list(fields)).add("_arrived_at", TimestampType())
    return known.add("_partition", IntegerType()).add("_offset", LongType())
