"""The slice written by hand, tuned as well as we know how to: what the engine's comfort is measured against.

Why the same session: tuning that the engine found (file system, snapshot partitions, state store) is open to
everybody, so it must not flatter the engine. How the engine caches rows and where it keeps small state is code of its own, as its reader of JSON
is; the job has Spark's, and RocksDB, which no state is too large for. Why the same parse: a looser one would win by accepting what it should not.
Missing on purpose, because a person who writes one job leaves it out: the ledger, the proof of completeness,
slices aligned by time, a survivor among copies that does not depend on chance, the lease.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import Added, for_sorted_state, start
from tests.benchmarks.contestants import by_hand, merging, parsing, tuned_ads
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place, Stop
from tests.benchmarks.contestants.queries import Query, drain, run_on, versions

DELAY = "75 minutes"
"""An hour late, five minutes early, ten minutes of disorder: as the engine's table declares."""

BRONZE_STATS = "_partition,_offset,_arrived_at,_batch"
QUARANTINE_STATS = "_partition,_offset,_arrived_at,event_at"


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SPARKS_CACHE = {
    "spark.sql.cache.serializer": "org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


class Tuned:
    """Plain PySpark as an expert writes it."""

    def begin(self, log: Path) -> dict[str, str]:
        """Start Spark with the engine's own settings."""
        return versions(start(settings(lake=log.parent), log, added=Added(options=SPARKS_CACHE)))

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Bring tables to where their sources end, each after those that it reads."""
        for name in names:
            drain(_query(name, place))

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Run tables always on."""
        return run_on([_query(name, place) for name in names])


def _query(name: str, place: Place) -> Query:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    if name == GOLD and place.on_change:
        return _gold_on_change(spark, place)
    return QUERIES[name](spark, place)


def _bronze(spark: SparkSession, place: Place, name: str = BRONZE) -> Query:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", place.address)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", "5")
        .option("subscribe", place.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    rows = records.select(
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_arrived_at"),
        F.col("key").alias("_message_key"),
        F.col("value").alias("_payload"),
        F.col("headers").alias("_headers"),
        F.current_timestamp().alias("_ingested_at"),
    )
    path = place.table(name)
    by_hand.create(spark, path, StructType([*rows.schema]).add("_batch", LongType()), BRONZE_STATS)

    def write(batch: DataFrame, number: int) -> None:
        numbered = batch.withColumn("_batch", F.lit(number).cast("bigint"))
        by_hand.append(numbered, path, name, number)

    return Query(name=name, rows=rows, place=place, write=write)


def _silver(spark: SparkSession, place: Place) -> Query:
    session = for_sorted_state(spark)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    events = by_hand.read(session, place.table(BRONZE))
    verdicts = parsing.judged(events)
    rows = verdicts.withWatermark("_time", DELAY).dropDuplicates(["_key", "_bad", "_time"])
    good = [*parsing.COLUMNS, *parsing.IDENTITY]
    bad = [*parsing.IDENTITY, "reasons", "event_at", "_message_key", "_payload", "_headers"]
    silver, quarantine = place.table(SILVER), place.quarantine
    by_hand.create(spark, silver, rows.select(*good).schema, by_hand.SILVER_STATS)
    by_hand.create(spark, quarantine, rows.select(*bad).schema, QUARANTINE_STATS)

    def write(batch: DataFrame, number: int) -> None:
        by_hand.consume(batch)
        by_hand.append(
            batch.where("reasons IS NOT NULL").select(*bad), quarantine, "quarantine", number
        )
        by_hand.append(batch.where("reasons IS NULL").select(*good), silver, SILVER, number)
        batch.unpersist()

    return Query(name=SILVER, rows=rows, place=place, write=write)


def _gold(spark: SparkSession, place: Place) -> Query:
    rows = _windows(by_hand.read(spark, place.table(SILVER)))
    path = place.table(GOLD)
    by_hand.create(spark, path, rows.schema)
    return Query(name=GOLD, rows=rows, place=place, write=partial(by_hand.append_few, path))


def _gold_on_change(spark: SparkSession, place: Place) -> Query:
    rows = _windows(by_hand.read(spark, place.table(SILVER)))
    path = place.table(GOLD)
    by_hand.create(spark, path, rows.schema)
    write: Callable[[DataFrame, int], None] = partial(merging.upsert, path)
    return Query(name=GOLD, rows=rows, place=place, write=write, output="update")


def _windows(readings: DataFrame) -> DataFrame:
    window = F.window("event_at", "10 minutes")
    return (
        readings.withWatermark("event_at", DELAY)
        .groupBy("device_id", "signal", window)
        .agg(
            F.count("*").alias("readings"),
            F.min("value").alias("min_value"),
            F.max("value").alias("max_value"),
            F.avg("value").alias("avg_value"),
            F.expr("percentile_disc(0.95) WITHIN GROUP (ORDER BY value)")
            .cast("decimal(18, 4)")
            .alias("p95_value"),
        )
        .select(
            "device_id",
            "signal",
            F.col("window.start").alias("window_from"),
            F.col("window.end").alias("window_until"),
            "readings",
            "min_value",
            "max_value",
            "avg_value",
            "p95_value",
        )
    )


QUERIES: dict[str, Callable[[SparkSession, Place], Query]] = {
    BRONZE: _bronze,
    SILVER: _silver,
    GOLD: _gold,
    tuned_ads.BRONZE: partial(_bronze, name=tuned_ads.BRONZE),
    tuned_ads.SILVER: tuned_ads.silver,
    tuned_ads.GOLD: tuned_ads.gold,
}
"""How each table is filled."""
