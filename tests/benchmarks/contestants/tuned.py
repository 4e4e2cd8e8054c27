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

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import Added, for_sorted_state, start
from tests.benchmarks.contestants import merging, parsing
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place, Stop
from tests.benchmarks.contestants.queries import Query, drain, run_on

DELAY = "75 minutes"
"""An hour late, five minutes early, ten minutes of disorder: as the engine's table declares."""

BRONZE_STATS = "_partition,_offset,_arrived_at,_batch"
SILVER_STATS = "event_at,_partition,_offset,_arrived_at"
QUARANTINE_STATS = "_partition,_offset,_arrived_at,event_at"


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SPARKS_CACHE = {
    "spark.sql.cache.serializer": "org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


class Tuned:
    """Plain PySpark as an expert writes it."""

    def session(self, log: Path) -> SparkSession:
        """Start Spark with the engine's own settings."""
        return start(settings(lake=log.parent), log, added=Added(options=SPARKS_CACHE))

    def catch_up(self, name: str, place: Place) -> None:
        """Bring a table to where its source ends."""
        drain(_query(name, place))

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Run tables always on."""
        return run_on([_query(name, place) for name in names])


def _query(name: str, place: Place) -> Query:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    match name, place.on_change:
        case "bronze.device_telemetry", _:
            return _bronze(spark, place)
        case "silver.device_telemetry", _:
            return _silver(spark, place)
        case "gold.device_signal_10m", True:
            return _gold_on_change(spark, place)
        case _:
            return _gold(spark, place)


def _bronze(spark: SparkSession, place: Place) -> Query:
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
    path = place.table(BRONZE)
    _create(spark, path, StructType([*rows.schema]).add("_batch", LongType()), BRONZE_STATS)

    def write(batch: DataFrame, number: int) -> None:
        numbered = batch.withColumn("_batch", F.lit(number).cast("bigint"))
        _append(numbered, path, BRONZE, number)

    return Query(name=BRONZE, rows=rows, place=place, write=write)


def _silver(spark: SparkSession, place: Place) -> Query:
    session = for_sorted_state(spark)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    events = _read(session, place.table(BRONZE))
    verdicts = parsing.judged(events)
    rows = verdicts.withWatermark("_time", DELAY).dropDuplicates(["_key", "_bad", "_time"])
    good = [*parsing.COLUMNS, *parsing.IDENTITY]
    bad = [*parsing.IDENTITY, "reasons", "event_at", "_message_key", "_payload", "_headers"]
    silver, quarantine = place.table(SILVER), place.quarantine
    _create(spark, silver, rows.select(*good).schema, SILVER_STATS)
    _create(spark, quarantine, rows.select(*bad).schema, QUARANTINE_STATS)

    def write(batch: DataFrame, number: int) -> None:
        _consume(batch)
        _append(batch.where("reasons IS NOT NULL").select(*bad), quarantine, "quarantine", number)
        _append(batch.where("reasons IS NULL").select(*good), silver, SILVER, number)
        batch.unpersist()

    return Query(name=SILVER, rows=rows, place=place, write=write)


def _gold(spark: SparkSession, place: Place) -> Query:
    rows = _windows(_read(spark, place.table(SILVER)))
    path = place.table(GOLD)
    _create(spark, path, rows.schema)
    return Query(name=GOLD, rows=rows, place=place, write=partial(_append_few, path))


def _gold_on_change(spark: SparkSession, place: Place) -> Query:
    rows = _windows(_read(spark, place.table(SILVER)))
    path = place.table(GOLD)
    _create(spark, path, rows.schema)
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


def _read(spark: SparkSession, path: str) -> DataFrame:
    options = {"startingVersion": "0", "maxBytesPerTrigger": "512m"}
    return spark.readStream.format("delta").options(**options).load(path)


def _create(spark: SparkSession, path: str, schema: StructType, stats: str | None = None) -> None:
    table = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
    table = table.property("delta.checkpointInterval", "100")
    if stats is not None:
        table = table.property("delta.dataSkippingStatsColumns", stats)
    table.execute()


def _append_few(path: str, batch: DataFrame, number: int) -> None:
    _consume(batch)
    _append(batch.coalesce(1), path, GOLD, number)
    batch.unpersist()


def _consume(batch: DataFrame) -> None:
    """Compute a batch before it is written: after a kill Delta skips what it has, and reads nothing of the batch.

    Its state is then not written, and Spark ends at every start with "Not all StateStores committed for batch".
    """
    batch.persist()
    batch.count()


def _append(batch: DataFrame, path: str, application: str, number: int) -> None:
    (
        batch.write.format("delta")
        .mode("append")
        .option("txnAppId", application)
        .option("txnVersion", number)
        .save(path)
    )
