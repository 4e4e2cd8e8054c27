"""Rows that are cached come back as they were, whatever their types, their length and where they are kept."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from strandline.core.stateful import explained

SHAPE = (
    "id bigint, small tinyint, is_it boolean, ratio double, price decimal(30, 4), label string, bytes binary, "
    "at timestamp, day date, many array<string>, named map<string, bigint>, one struct<a string, b array<int>>"
)
Look: TypeAlias = Callable[[DataFrame], object]
LEVELS = (StorageLevel.MEMORY_AND_DISK, StorageLevel.DISK_ONLY)


def rows(seed: int, count: int) -> list[tuple[object, ...]]:
    """Return rows of which each value is NULL now and then, and each text has a length of its own."""
    chance = random.Random(seed)  # noqa: S311  # no secret

    def maybe(value: object) -> object:
        return None if chance.random() < 0.2 else value

    def text() -> str:
        return "ä€𝄞x"[chance.randrange(4)] * chance.choice((0, 1, 7, 8, 9, 1000))

    def row(number: int) -> tuple[object, ...]:
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**15))
        return (
            number,
            maybe(chance.randrange(-128, 128)),
            maybe(chance.random() < 0.5),
            maybe(chance.random()),
            maybe(Decimal(chance.randrange(10**20)).scaleb(-4)),
            maybe(text()),
            maybe(bytearray(text().encode())),
            maybe(moment),
            maybe(moment.date()),
            maybe([maybe(text()) for _ in range(chance.randrange(4))]),
            maybe({text() + str(each): each for each in range(chance.randrange(3))}),
            maybe((maybe(text()), list(range(chance.randrange(3))))),
        )

    return [row(number) for number in range(count)]


def kept_as(frame: DataFrame, level: StorageLevel, *looks: Look) -> None:
    """Check that each look at the cached rows finds what it found before they were cached."""
    before = [look(frame.select("*")) for look in looks]
    frame.persist(level)
    try:
        for _ in range(2):  # the first look fills the cache, the second reads it
            assert [look(frame.select("*")) for look in looks] == before
        assert "InMemoryTableScan" in explained(frame.select("*"))
    finally:
        frame.unpersist()


def sorted_by_id(*columns: str) -> Look:
    """Return a look at some columns of all rows."""
    return lambda frame: frame.orderBy("id").select(*columns).collect()


@pytest.mark.whole("level1")
@pytest.mark.parametrize("level", LEVELS)
def test_cached_rows_are_what_they_were(spark: SparkSession, level: StorageLevel) -> None:
    """All columns, some of them in another order, and none."""
    seed = random.randrange(10**9)  # noqa: S311  # no secret; pytest names the seed of its own
    plain = spark.createDataFrame(rows(seed, 700), SHAPE, verifySchema=False)
    frame = plain.repartition(3, "id")

    kept_as(
        frame,
        level,
        sorted_by_id("*"),
        sorted_by_id("one", "id", "label"),
        sorted_by_id("one.b", "named"),
        lambda each: each.where("label IS NULL").count(),
        lambda each: each.count(),
    )


def test_a_row_that_is_longer_than_a_batch_is_one_of_its_own(spark: SparkSession) -> None:
    """Six megabytes of text between short ones, in one partition."""
    length = F.expr(f"IF(id % 5 = 3, {3 << 20}, CAST(id AS INT))")
    texts = spark.range(20).coalesce(1).withColumn("text", F.repeat(F.lit("ä"), length))

    kept_as(
        texts,
        StorageLevel.MEMORY_AND_DISK,
        lambda each: each.select("id", F.octet_length("text"), F.sha2("text", 256)).collect(),
    )


def test_no_row_and_many_rows_are_kept(spark: SparkSession) -> None:
    """A partition without rows has no batch; many rows are several."""
    numbers = spark.range(0, 200_000, numPartitions=4)
    many = numbers.withColumn("text", F.md5(F.col("id").cast("string")))
    total = F.sum(F.xxhash64("text", "id").cast("decimal(30, 0)"))

    kept_as(
        many, StorageLevel.MEMORY_AND_DISK, lambda each: each.agg(total).collect(), DataFrame.count
    )
    kept_as(many.where("id < 0"), StorageLevel.MEMORY_AND_DISK, DataFrame.collect, DataFrame.count)
