"""Query 6, average price by seller: of each auction that closed, the average of its seller's last ten winning prices.

Grain: one row an auction with a winning bid.
Reads: gold.winning_bids. Read by: nothing.
Late data: an auction counts once none that closed before it can come any more.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType
from strandline import Emit, Event, Fold, Folded, Kept, Memory, Upserted, folded

from nexmark.gold import winning_bids

LAST = 10

ANSWER = (
    StructType()
    .add("seller", LongType())
    .add("id", LongType())
    .add("closed_us", LongType())
    .add("average", LongType())
)


def _in_order(auction: Kept) -> list[int]:
    return [auction["at"], auction["id"]]


def _step(memory: Memory, rows: list[Event], watermark: int) -> Folded:
    """Take the auctions up to the watermark in the order in which they closed."""
    waiting = memory.waiting("auctions", _in_order)
    waiting.add({name: row[name] for name in ("at", "id", "seller", "price")} for row in rows)
    prices: list[int] = memory.head.get("prices", [])
    answers = []
    for auction in waiting.pop(watermark):
        prices = [*prices, auction["price"]][-LAST:]
        average = sum(prices) // len(prices)
        answers.append(
            {
                "seller": auction["seller"],
                "id": auction["id"],
                "closed_us": auction["at"],
                "average": average,
            }
        )
    memory.head = {"prices": prices} if prices else {}
    return Folded(answers, waiting.first)


def q6(auctions: DataFrame) -> DataFrame:
    """Fold the auctions of each seller."""
    seen = [(auctions, "expires_at", winning_bids.TABLE.lateness)]
    averages = folded(auctions, FOLD, time="expires_at", seen=seen)
    closed_at = F.timestamp_micros("closed_us")
    return averages.select(
        "seller",
        "id",
        closed_at.alias("closed_at"),
        "average",
        F.date_trunc("minute", closed_at).alias("window_from"),
    )


FOLD = Fold(
    by=("seller",),
    reads=("id", "price"),
    output=ANSWER,
    key=("id",),
    step=_step,
    form=1,
    migrate=lambda _: None,
)

TABLE = Upserted(
    name="q6",
    reads=(winning_bids.TABLE,),
    transform=q6,
    key=("id", "closed_at"),
    event_at="closed_at",
    emits=Emit.ON_WATERMARK,
    window_from="window_from",
)
