"""Each query as NEXMark has it, as one streaming plan of Spark's: whether Spark takes it, and what it says where not.

A query that is taken emits rows, in mode append each once; whether they are all there is another question, which a chain of tables
answers. So this is asked of Spark alone, with empty streams: it refuses a plan before it reads a row.
"""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

STREAMS: Mapping[str, tuple[str, str]] = {
    "person": (
        "joined_at",
        "id bigint, name string, city string, state string, joined_at timestamp",
    ),
    "auction": (
        "opened_at",
        "id bigint, item_name string, opened_at timestamp, expires_at timestamp, seller bigint, category bigint",
    ),
    "bid": (
        "bid_at",
        "auction bigint, bidder bigint, price bigint, channel string, url string, bid_at timestamp, extra string",
    ),
}
"""The streams, each with its event time and its columns."""

WON = """
    SELECT a.id, a.seller, a.category, a.expires_at, b.price, b.bid_at FROM auction a JOIN bid b
    ON a.id = b.auction AND b.bid_at BETWEEN a.opened_at AND a.expires_at AND b.bid_at <= a.opened_at + INTERVAL 1 MINUTE
"""
COUNTED = """
    SELECT auction, window(bid_at, '10 seconds', '2 seconds') AS w, count(*) AS num FROM bid
    GROUP BY auction, window(bid_at, '10 seconds', '2 seconds')
"""

QUERIES: Mapping[str, str] = {
    "q0": "SELECT * FROM bid",
    "q1": "SELECT auction, bidder, price * 0.908 AS price, bid_at, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) FROM (SELECT id, category, max(price) AS final FROM ({WON}) GROUP BY id, category)
        GROUP BY category""",
    "q5": f"""SELECT c.auction, c.num FROM ({COUNTED}) c
        JOIN (SELECT w, max(num) AS most FROM ({COUNTED}) GROUP BY w) m ON c.w = m.w AND c.num >= m.most""",
    "q6": f"""SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY expires_at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
        FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_at) AS nth FROM ({WON})) WHERE nth = 1""",
    "q7": """SELECT b.auction, b.bidder, b.price, b.bid_at, b.extra FROM bid b
        JOIN (SELECT window(bid_at, '10 seconds') AS w, max(price) AS highest FROM bid GROUP BY window(bid_at, '10 seconds')) h
        ON b.price = h.highest AND b.bid_at BETWEEN h.w.start AND h.w.start + INTERVAL 10 SECONDS""",
    "q8": """SELECT p.id, p.name, p.w.start FROM
        (SELECT id, name, window(joined_at, '10 seconds') AS w FROM person GROUP BY id, name, window(joined_at, '10 seconds')) p
        JOIN (SELECT seller, window(opened_at, '10 seconds') AS w FROM auction GROUP BY seller, window(opened_at, '10 seconds')) a
        ON p.id = a.seller AND p.w = a.w""",
    "q9": f"""SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_at) AS nth FROM ({WON}))
        WHERE nth = 1""",
    "q11": """SELECT bidder, count(*), session_window.start, session_window.end FROM bid
        GROUP BY bidder, session_window(bid_at, '10 seconds')""",
    "q12": """SELECT bidder, count(*), w FROM (SELECT bidder, window(current_timestamp(), '10 seconds') AS w FROM bid)
        GROUP BY bidder, w""",
    "q18": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY bid_at DESC) AS nth FROM bid)
        WHERE nth = 1""",
    "q19": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS nth FROM bid)
        WHERE nth <= 10""",
}


def verdicts(spark: SparkSession, root: Path) -> dict[str, dict[str, str]]:
    """Return, of each query and each mode of output, what Spark says; empty where it takes the plan."""
    session = spark.newSession()
    for name, (time, columns) in STREAMS.items():
        folder = root / "empty" / name
        session.createDataFrame([], columns).write.mode("overwrite").parquet(str(folder))
        rows = session.readStream.schema(columns).parquet(str(folder))
        rows.withWatermark(time, "6 seconds").createOrReplaceTempView(name)
    return {
        query: {mode: _verdict(session, text, mode, root) for mode in ("append", "update")}
        for query, text in QUERIES.items()
    }


def _verdict(session: SparkSession, text: str, mode: str, root: Path) -> str:
    started: StreamingQuery | None = None
    try:
        writer = session.sql(text).writeStream.format("noop").outputMode(mode)
        checkpoint = str(root / "empty" / "_checkpoints" / uuid4().hex)
        started = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
        started.awaitTermination(60)
    except AnalysisException as error:
        return str(error).splitlines()[0]
    except Exception as error:  # noqa: BLE001  # what Spark says when the batch is planned
        return str(error).splitlines()[0]
    finally:
        if started is not None:
            started.stop()
    return ""
