"""The Yahoo streaming benchmark by hand in plain PySpark: three layers, as tuned.py has them for readings."""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.benchmarks.contestants import by_hand
from tests.benchmarks.contestants.contestant import ADS, Place
from tests.benchmarks.contestants.queries import Query
from tests.benchmarks.yahoo.ads import CAMPAIGN_OF

BRONZE, SILVER, GOLD = ADS
DELAY = "75 seconds"
"""A minute late, five seconds early, ten seconds of disorder: as the engine's table declares."""
FIELDS = (
    "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time STRING, "
    "ip_address STRING"
)
IDENTITY = ("_topic", "_partition", "_offset", "_arrived_at")
READABLE = "ad_id IS NOT NULL AND event_type IS NOT NULL AND event_at IS NOT NULL"
IN_TIME = "event_at BETWEEN _arrived_at - INTERVAL 1 MINUTE AND _arrived_at + INTERVAL 5 SECONDS"


def silver(spark: SparkSession, place: Place) -> Query:
    """Read each event; what is none of them, or comes too late, is held back."""
    events = by_hand.read(spark, place.table(BRONZE))
    parsed = events.withColumn("_event", F.from_json(F.col("_payload").cast("string"), FIELDS))
    rows = (
        parsed.select("_event.*", *IDENTITY, "_message_key", "_payload")
        .withColumn("event_at", F.timestamp_millis(F.expr("try_cast(event_time AS BIGINT)")))
        .withColumn("_good", F.expr(f"coalesce({READABLE} AND {IN_TIME}, false)"))
    )
    path, held = place.table(SILVER), str(place.root / "quarantine" / "ad_events")
    bad = rows.select(*IDENTITY, "event_at", "_message_key", "_payload")
    good = rows.drop("event_time", "_message_key", "_payload", "_good")
    by_hand.create(spark, path, good.schema, by_hand.SILVER_STATS)
    by_hand.create(spark, held, bad.schema, by_hand.SILVER_STATS)

    def write(batch: DataFrame, number: int) -> None:
        by_hand.consume(batch)
        by_hand.append(batch.where("NOT _good").select(*bad.columns), held, "held", number)
        by_hand.append(batch.where("_good").select(*good.columns), path, SILVER, number)
        batch.unpersist()

    return Query(name=SILVER, rows=rows, place=place, write=write)


def gold(spark: SparkSession, place: Place) -> Query:
    """Count the views of each campaign in ten seconds."""
    campaigns = spark.createDataFrame(list(CAMPAIGN_OF.items()), "ad_id STRING, campaign_id STRING")
    views = by_hand.read(spark, place.table(SILVER)).where("event_type = 'view'")
    rows = (
        views.join(F.broadcast(campaigns), "ad_id", "left")
        .withWatermark("event_at", DELAY)
        .groupBy("campaign_id", F.window("event_at", "10 seconds"))
        .agg(F.count("*").alias("views"))
        .selectExpr(
            "campaign_id", "window.start AS window_from", "window.end AS window_until", "views"
        )
    )
    path = place.table(GOLD)
    by_hand.create(spark, path, rows.schema)
    return Query(name=GOLD, rows=rows, place=place, write=partial(by_hand.append_few, path))
