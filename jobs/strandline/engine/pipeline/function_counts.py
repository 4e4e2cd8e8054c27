"""Count what a silver function loses or multiplies, in the batch that is being written anyway.

A silver function turns each record into one row; copies are dropped after it, bad rows are held after it. So a record
without a row is in no place, and a second row of a record is an event that was never sent. Neither can be known from the
rows that are written: what is missing there may as well be a copy.

So the rows that leave the function are counted on their way to the state, and with them an XOR of a hash of each row's
place in Kafka. The number alone would not do: a function that loses two records and doubles two others has as many rows
as records. The XOR of the records that were read is known without reading them: bronze's own entry has the range of each
partition, and a commit that has as many records as offsets has each of them. Where Kafka left gaps, the places are
read from the files.

If both agree, each record has exactly one row. If not, which is a fault of the table and no ordinary batch, function and
source are compared record by record; only that names the two numbers. It also settles a count that Spark made twice: when
an executor dies, a stage runs again, and its rows are counted again.

A batch that is killed is computed again by Spark, and counted again with it: all is known before the commit, and is in it.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.received import PLACE, RECEIVED
from strandline.core.table import Judged
from strandline.core.verdict import with_newest_arrival
from strandline.engine.runtime.jvm import classic, jvm
from strandline.engine.storage.ledger import Through
from strandline.engine.storage.log_actions import Added

NAME = "out of the function"

SEED, EIGHT = 42, 8
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
"""The constants of xxHash, and the seed with which Spark begins."""

SLICE = 1 << 16
"""How many hashes are held at once."""

Mark = tuple[int, int]
"""A number of records, and the XOR of the hashes of their places."""


def watched(rows: DataFrame) -> DataFrame:
    """Count the rows that leave a silver function, where they pass."""
    return rows.observe(NAME, F.count(F.lit(1)).alias("rows"), _xor().alias("places"))


def _xor() -> Any:  # noqa: ANN401  # a Column, which needs no name here
    topic = F.crc32(F.col("_topic").cast("binary"))
    return F.bit_xor(F.xxhash64(topic, F.col("_partition").cast("bigint"), F.col("_offset")))


def of_stream(spark: SparkSession, stream: str) -> Mark:
    """Return what passed in the batch that a stream computes now; its rows must have been read."""
    running = classic(spark).sharedState().activeStreamingQueries()
    query = running.get(jvm(spark).java.util.UUID.fromString(stream))
    return _mark(query.lastExecution().observedMetrics())


def of_batch(kept: DataFrame) -> Mark:
    """Return what passed on the way to rows that were persisted and read."""
    return _mark(kept.select("*")._jdf.queryExecution().observedMetrics())  # noqa: SLF001  # there is no public way


def _mark(metrics: Any) -> Mark:  # noqa: ANN401  # py4j's objects have no types
    row = metrics.apply(NAME)
    return int(row.getLong(0)), 0 if row.isNullAt(1) else int(row.getLong(1))


def mark_of(spark: SparkSession, parts: Sequence[Added], whole: Callable[[], DataFrame]) -> Mark:
    """Return the number of the records that a batch reads of bronze, and the XOR of their places.

    Args:
        spark: The session.
        parts: What each version that it reads added.
        whole: Returns the rows, where they are a snapshot and no versions.
    """
    rows, places = 0, 0
    files: list[str] = []
    for part in parts:
        rows += part.rows
        if part.places is not None:
            places ^= _of_ranges(part.places)
        elif part.files:
            files += part.files
        else:
            places ^= mark_of_rows(whole())[1]
    if files:
        places ^= mark_of_rows(spark.read.schema(RECEIVED).parquet(*files))[1]
    return rows, places


def mark_of_rows(records: DataFrame) -> Mark:
    """Return the number of records of bronze, and the XOR of their places."""
    found = records.agg(F.count(F.lit(1)).alias("rows"), _xor().alias("places")).collect()[0]
    return int(found["rows"]), int(found["places"] or 0)


def _of_ranges(places: Mapping[str, tuple[int, int]]) -> int:
    return reduce(xor, (_of_range(part, *ends) for part, ends in places.items()), 0)


def _of_range(part: str, first: int, end: int) -> int:
    """Return the XOR of Spark's hashes of the places of all offsets of a range."""
    topic, _, partition = part.rpartition("/")
    seed = np.uint64(SEED)
    for number in (zlib.crc32(topic.encode()), int(partition)):
        seed = _hashed(np.array([number], dtype=np.int64), seed)[0]
    found = np.uint64(0)
    for start in range(first, end, SLICE):
        offsets = np.arange(start, min(start + SLICE, end), dtype=np.int64)
        found ^= np.bitwise_xor.reduce(_hashed(offsets, seed))
    return int(found.astype(np.int64))


def _hashed(numbers: "np.ndarray[Any, Any]", seed: np.uint64) -> "np.ndarray[Any, Any]":
    """Return xxHash of 64-bit numbers, as Spark computes it of one column after another."""
    with np.errstate(over="ignore"):
        hashes = _turned(numbers.view(np.uint64) * P2, 31) * P1
        hashes ^= seed + P5 + np.uint64(EIGHT)
        hashes = _turned(hashes, 27) * P1 + P4
        hashes ^= hashes >> np.uint64(33)
        hashes *= P2
        hashes ^= hashes >> np.uint64(29)
        hashes *= P3
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _turned(numbers: "np.ndarray[Any, Any]", by: int) -> "np.ndarray[Any, Any]":
    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is known of a batch of silver, and how the rest is found.

    Args:
        table: The table.
        read: What it reads.
        passed: Returns what left its function, once the rows were computed.
        records: Returns the records that it reads.
    """

    table: Judged
    read: Callable[[], Mark]
    passed: Callable[[DataFrame], Mark]
    records: Callable[[], DataFrame]

    def through(self, kept: DataFrame) -> Through:
        """Return what the function lost and made; ``kept`` are the rows of the batch, which were computed."""
        if self.passed(kept) == self.read():
            return Through()
        return compared(self.records(), self.table)


def compared(records: DataFrame, table: Judged) -> Through:
    """Compare a function's rows with its records, record by record."""
    came = records.select(*PLACE).withColumn("_in", F.lit(1))
    rows = table.transform(with_newest_arrival(records)).select(*PLACE)
    both = came.unionByName(rows.withColumn("_in", F.lit(0)))
    more = F.sum(F.when(F.col("_in") == 1, -1).otherwise(1)).alias("more")
    each = both.groupBy(*PLACE).agg(more)
    lost, made = each.agg(
        F.sum(F.greatest(-F.col("more"), F.lit(0))), F.sum(F.greatest("more", F.lit(0)))
    ).collect()[0]
    return Through(lost=lost or 0, made=made or 0)
