"""The slice as the tutorials write it: default settings, default state store, 200 shuffle partitions.

What it lacks by design: a law of late and early, a strict parse, reasons. It keeps every payload that
``from_json`` can make something of, and its quarantine is what lacks a demanded field.
Kinder to it than a tutorial is: no web interface, the same heap as the others, sources from the beginning.
"""

import os
from functools import partial
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver.device_telemetry import FIELDS
from strandline.engine.runtime.settings import settings
from strandline_infra import java
from tests.benchmarks.contestants import merging
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place, Stop
from tests.benchmarks.contestants.queries import Query, drain, run_on, versions

DEMANDED = (
    "event_id IS NOT NULL AND device_id IS NOT NULL AND value IS NOT NULL AND event_at IS NOT NULL"
)


class Tutorial:
    """Plain PySpark as a beginner's tutorial has it."""

    def begin(self, log: Path) -> dict[str, str]:
        """Start Spark with Delta and nothing else."""
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found = ":".join(str(jar) for jar in java.spark_jars())
        spark = (
            SparkSession.builder.appName(log.stem)
            .master("local[*]")
            .config("spark.driver.extraClassPath", found)
            .config("spark.driver.memory", settings(lake=log.parent).memory)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config(
                "spark.sql.catalog.spark_catalog",
                "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            )
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        return versions(spark)

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
    spark.conf.set("spark.sql.shuffle.partitions", place.partitions)
    match name, place.on_change:
        case "bronze.device_telemetry", _:
            return _bronze(spark, place)
        case "silver.device_telemetry", _:
            return _silver(spark, place)
        case "gold.device_signal_10m", True:
            return _gold_on_change(spark, place)
        case _:
            rows = _windows(spark.readStream.format("delta").load(place.table(SILVER)))
            return Query(name=GOLD, rows=rows, place=place)


def _bronze(spark: SparkSession, place: Place) -> Query:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", place.address)
        .option("subscribe", place.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = records.select("topic", "partition", "offset", "timestamp", "key", "value")
    return Query(name=BRONZE, rows=rows, place=place)


def _silver(spark: SparkSession, place: Place) -> Query:
    events = spark.readStream.format("delta").load(place.table(BRONZE))
    parsed = events.withColumn("data", F.from_json(F.col("_payload").cast("string"), FIELDS))
    rows = (
        parsed.select("data.*", "_topic", "_partition", "_offset", "_arrived_at", "_payload")
        .withWatermark("event_at", "1 hour")
        .dropDuplicates(["event_id", "event_at"])
    )

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        good, bad = batch.where(DEMANDED), batch.where(f"NOT ({DEMANDED})")
        _append(good.drop("_payload"), place.table(SILVER), SILVER, number)
        _append(bad, place.quarantine, "quarantine", number)
        batch.unpersist()

    return Query(name=SILVER, rows=rows, place=place, write=write)


def _gold_on_change(spark: SparkSession, place: Place) -> Query:
    rows = _windows(spark.readStream.format("delta").load(place.table(SILVER)))
    path = place.table(GOLD)
    DeltaTable.createIfNotExists(spark).location(path).addColumns(rows.schema).execute()
    write = partial(merging.upsert, path)
    return Query(name=GOLD, rows=rows, place=place, write=write, output="update")


def _windows(readings: DataFrame) -> DataFrame:
    return (
        readings.withWatermark("event_at", "1 hour")
        .groupBy("device_id", "signal", F.window("event_at", "10 minutes"))
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


def _append(batch: DataFrame, path: str, application: str, number: int) -> None:
    options = {"txnAppId": application, "txnVersion": str(number)}
    batch.write.format("delta").mode("append").options(**options).save(path)
