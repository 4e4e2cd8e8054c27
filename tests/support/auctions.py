"""Auctions and bids, as in the fourth query of NEXMark: the average of the winning prices, by category and hour of opening.

An auction may last four hours, so most bids come when the window of their auction is long over.
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.table import Recomputed, Windowed
from tests.support.edits import TEN, source
from tests.support.literal import Log

AUCTION = (
    StructType()
    .add("k", StringType())
    .add("category", StringType())
    .add("opened_at", TimestampType())
    .add("expires_at", TimestampType())
)
BID = (
    StructType()
    .add("auction", StringType())
    .add("price", LongType())
    .add("bid_at", TimestampType())
)
AUCTIONS = replace(source("auctions"), event_at="opened_at")
BIDS = replace(source("bids"), key=("auction",), event_at="bid_at")
HOUR = "1 hour"

OPENED = """
    batch | k    | category | opened_at | expires_at
    1     | a    | books    | 08:10:00  | 12:05:00
    1     | b    | books    | 08:40:00  | 08:50:00
    1     | c    | maps     | 08:20:00  | 12:20:00
    2     | x    | none     | 10:00:00  | 10:00:00
    3     | x    | none     | 12:10:00  | 12:10:00
    4     | x    | none     | 14:30:00  | 14:30:00
    5     | x    | none     | 18:00:00  | 18:00:00
"""
OFFERED = """
    batch | auction | price | bid_at
    1     | a       | 10    | 08:11:00
    1     | b       | 30    | 08:45:00
    1     | b       | 99    | 08:51:00
    2     | none    | 1     | 10:00:00
    3     | a       | 50    | 12:01:00
    3     | c       | 7     | 12:19:00
    4     | none    | 1     | 14:30:00
    5     | none    | 1     | 18:00:00
"""
LOG: Log = {AUCTIONS: (AUCTION, OPENED), BIDS: (BID, OFFERED)}
"""The two highest bids come hours after the windows of their auctions; the clocks then move on in steps."""


def prices(auctions: DataFrame, bids: DataFrame, meets: Column) -> DataFrame:
    """Return the average winning price by category and hour of opening."""
    window = F.window("opened_at", HOUR)
    won = (
        auctions.join(bids, (F.col("k") == F.col("auction")) & meets)
        .groupBy("k", "category", window)
        .agg(F.max("price").cast("decimal(12,0)").alias("price"))
    )
    means = won.groupBy("category", "window").agg(
        F.count("*").alias("auctions"), F.avg("price").alias("price")
    )
    return means.select(
        "category",
        F.col("window.start").alias("opens"),
        F.col("window.end").alias("ends"),
        "auctions",
        F.col("price").cast("decimal(12,2)").alias("price"),
    )


def as_first_written(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Meet as the query says: nothing bounds how long an auction waits for bids."""
    return prices(auctions, bids, F.col("bid_at").between(F.col("opened_at"), F.col("expires_at")))


def unbounded(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Meet however late: Spark keeps the auctions for ever, and drops their windows all the same."""
    return prices(auctions, bids, F.col("bid_at") >= F.col("opened_at"))


def bounded(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Meet within the longest time that an auction lasts."""
    lasts = F.col("bid_at") <= F.col("opened_at") + F.expr("INTERVAL 4 HOURS")
    meets = F.col("bid_at").between(F.col("opened_at"), F.col("expires_at")) & lasts
    return prices(auctions, bids, meets)


def waited_for(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Say as well when a window is final: when its last auction is over."""
    over = F.col("ends") + F.expr("INTERVAL '04:00:00.001' HOUR TO SECOND")
    return bounded(auctions, bids).withColumn("final_at", over)


PRICES = Windowed(
    name="prices",
    reads=(AUCTIONS, BIDS),
    transform=as_first_written,
    key=("category", "opens"),
    window=HOUR,
    window_from="opens",
    closes_at="ends",
    lateness=TEN,
)
UNBOUNDED = replace(PRICES, transform=unbounded)
BOUNDED = replace(PRICES, transform=bounded)
WAITED_FOR = replace(PRICES, transform=waited_for, closes_at="final_at")
FOLLOWED = Recomputed(
    name="prices_followed",
    reads=(AUCTIONS, BIDS),
    transform=as_first_written,
    key=("category", "opens"),
    window=HOUR,
    window_from="opens",
    closes_at="ends",
    reach="4 hours",
)
"""The query as it is first written, in a kind of table that keeps no state."""
